"use strict";
// A row as a tile of the grid, and a row looked at closely.
(function (T) {
  const { $, el } = T;
  const EXAMPLES = 8; // of a class, beside a labelled row that looks wrong

  // What is said of a row in one line, for eyes and for screen readers.
  function caption(row) {
    const m = T.model;
    const isUnknown = m.decision[row] === T.UNKNOWN;
    const done = m.isDone(row);
    const score = T.number(m.data.score[row]);
    const best = m.data.classes[m.data.label[row]];
    let numbers = [`${Math.round(100 * m.data.probability[row])} % · ${score}`];
    if (done) numbers = [score];
    else if (isUnknown) numbers = [el("span", { class: "score" }, `${score} · `), `nearest ${best}`];
    return { label: m.labelOf(row), isUnknown, done, numbers };
  }

  T.tile = function (row) {
    const m = T.model;
    const { kind, name } = m.data;
    const { label, isUnknown, done, numbers } = caption(row);
    const suggested = m.data.suggested[row];
    const words = `${T.baseName(name[row])}: ${label}${done ? ", corrected" : ""}${suggested ? `, suggested ${suggested}` : ""}`;
    const tile = el("div", {
      role: "gridcell",
      id: `tile-${row}`,
      "data-row": row,
      "aria-selected": "false",
      "aria-label": words,
      class: `tile ${isUnknown ? "unknown" : "known"}${done ? " done" : ""}`,
      title: name[row],
    });
    const line = el(
      "span",
      { class: "caption" },
      el("span", { class: "label" }, el("span", { class: "dot", "aria-hidden": "true" }), label),
      el("span", { class: "numbers" }, ...numbers)
    );
    if (kind === "image") tile.append(T.picture(T.thumb(row), words));
    if (kind === "text") tile.append(el("span", { class: "text" }, m.data.text[row]));
    if (kind === "row") tile.append(el("span", { class: "name" }, T.baseName(name[row])));
    tile.append(line);
    if (done) tile.append(el("span", { class: "badge", "aria-hidden": "true" }, "✓"));
    else if (suggested) tile.append(el("span", { class: "badge rank", "aria-hidden": "true" }, suggested));
    return tile;
  };

  T.openDetail = function (row) {
    const dialog = $("detail");
    const isAgain = dialog.open;
    T.detailRow = row;
    T.grid.goToRow(row);
    dialog.replaceChildren(...(T.model.data.kind === "row" ? [] : [view(row)]), side(row));
    if (!isAgain) dialog.showModal();
    dialog.querySelector(".side").focus();
  };

  function view(row) {
    const { data } = T.model;
    if (data.kind === "text") return el("div", { class: "large" }, el("p", { class: "text" }, data.text[row]));
    const box = el("div", { class: "large" }, T.picture(T.thumb(row), T.baseName(data.name[row])));
    // The large one takes the small one's place when it is there; else the small one stays.
    const image = el("img", { alt: T.baseName(data.name[row]), decoding: "async" });
    image.addEventListener("load", () => box.isConnected && box.replaceChildren(image));
    image.src = T.large(row);
    return box;
  }

  function side(row) {
    const m = T.model;
    const { data } = m;
    const { label, isUnknown, done } = caption(row);
    const head = [
      el("h2", { id: "detail-name" }, T.titleOf(row)),
      data.kind === "image" ? el("p", { class: "path" }, data.name[row]) : null,
      el(
        "p",
        { class: `verdict ${isUnknown ? "unknown" : "known"}` },
        el("span", { class: "dot", "aria-hidden": "true" }),
        label,
        done ? el("span", { class: "said" }, " by you") : null
      ),
    ];
    const facts = el("dl", { class: "facts" });
    const fact = (title, value) => facts.append(el("div", {}, el("dt", {}, title), el("dd", {}, value)));
    fact("outlierness", T.number(data.score[row]));
    if (data.pValue) fact("p-value", T.number(data.pValue[row], 3));
    if (data.group[row] >= 0) fact("group", String(data.group[row]));
    if (data.suggested[row]) fact("suggested", String(data.suggested[row]));
    return el(
      "div",
      { class: "side", tabindex: "-1" },
      closing($("detail")),
      ...head.filter(Boolean),
      facts,
      el("h3", {}, "If it is of a known class"),
      bars(row),
      el("h3", {}, "Nearest labelled"),
      nearest(row),
      buttons()
    );
  }

  const closing = (dialog) =>
    el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "✕");

  function bars(row) {
    const { data } = T.model;
    const per = data.best.length / T.model.n;
    const list = el("ul", { class: "bars" });
    for (let i = 0; i < per; i++) {
      const share = data.proba[row * per + i];
      const meter = el("span", { class: "meter" }, el("i"));
      meter.firstChild.style.width = `${100 * share}%`;
      const percent = share >= 0.995 || share < 0.1 ? (100 * share).toFixed(1) : String(Math.round(100 * share));
      list.append(
        el("li", {}, el("span", { class: "bar-name" }, data.classes[data.best[row * per + i]]), meter, el("span", {}, `${percent} %`))
      );
    }
    return list;
  }

  function nearest(row) {
    const { data } = T.model;
    const per = data.nearest.length / T.model.n;
    const list = el("ul", { class: "nearest" });
    for (let i = row * per; i < (row + 1) * per; i++) list.append(labelled(data.nearest[i], T.number(data.similarity[i])));
    return list;
  }

  // A labelled row in a list of them.
  function labelled(index, note = null) {
    const { support } = T.model.data;
    const name = T.baseName(support.name[index]);
    const isText = support.text && index < support.text.length;
    const shown = isText
      ? el("span", { class: "text" }, support.text[index])
      : support.kind === "image" || support.row[index] >= 0
        ? T.picture(T.supportThumb(index), `labelled ${support.label[index]}: ${name}`)
        : el("span", { class: "no-image" }, name);
    return el(
      "li",
      { title: support.name[index] },
      shown,
      el("span", { class: "near-label" }, support.label[index]),
      note && el("span", { class: "muted" }, note)
    );
  }

  // A labelled row that looks wrong, with its class and the one that it looks like.
  T.openCheck = function (check) {
    const { support } = T.model.data;
    const examples = (label) => {
      const same = support.label.flatMap((one, index) => (one === label && index !== check.support ? [index] : []));
      return [
        el("h3", {}, `Labelled ${label}`),
        el("ul", { class: "nearest" }, ...same.slice(0, EXAMPLES).map((index) => labelled(index))),
      ];
    };
    $("check").replaceChildren(
      el(
        "div",
        { class: "side", tabindex: "-1" },
        closing($("check")),
        el("h2", { id: "check-title" }, T.checkText(check)),
        support.kind === "image" ? el("p", { class: "path" }, support.name[check.support]) : null,
        el("ul", { class: "nearest suspect" }, labelled(check.support)),
        ...examples(support.label[check.support]),
        ...examples(check.other),
        el("p", { class: "hint" }, "If its label is wrong, correct it in your labelled data and run again.")
      )
    );
    $("check").showModal();
    $("check").querySelector(".side").focus();
  };

  function buttons() {
    const one = (act, key, text) =>
      el("button", { type: "button", onclick: () => T.act(act), "data-act": act }, el("kbd", {}, key), ` ${text}`);
    return el(
      "div",
      { class: "detail-actions" },
      one("accept", "a", "Accept"),
      one("relabel", "r", "Label…"),
      one("unknown", "u", "Unknown"),
      one("new", "n", "New class"),
      one("previous", "←", "Previous"),
      one("next", "→", "Next")
    );
  }

  // The chooser: type to find a label or to name a new class.
  T.choose = function (title, isNew) {
    const dialog = $("chooser");
    const input = $("chooser-input");
    $("chooser-title").textContent = title;
    input.value = "";
    input.placeholder = isNew ? "Name of the new class" : "Type a label";
    return new Promise((resolve) => {
      let options = [];
      let at = 0;
      const draw = () => {
        const typed = input.value.trim();
        const words = typed.toLowerCase();
        const all = isNew && !typed ? [] : [...T.model.labels, T.model.data.unknown];
        options = all.filter((label) => label.toLowerCase().includes(words)).map((label) => ({ label, text: label }));
        // A name that differs only in case is a slip: the class that is there is offered.
        const isThere = (label) => label.toLowerCase() === words;
        for (const option of options) if (isNew && isThere(option.label)) option.text += " (is there already)";
        const fit = ({ label }) => isThere(label) + (label === typed);
        options.sort((a, b) => fit(b) - fit(a));
        if (typed && !all.some(isThere)) {
          const fresh = { label: typed, text: `New class “${typed}”` };
          if (isNew) options.unshift(fresh);
          else options.push(fresh);
        }
        at = Math.min(at, Math.max(0, options.length - 1));
        $("chooser-list").replaceChildren(
          ...options.map((option, i) =>
            el("li", { role: "option", id: `option-${i}`, "aria-selected": String(i === at), onclick: () => finish(option.label) }, option.text)
          )
        );
        if (options.length) {
          input.setAttribute("aria-activedescendant", `option-${at}`);
          $(`option-${at}`).scrollIntoView({ block: "nearest" });
        } else input.removeAttribute("aria-activedescendant");
      };
      const finish = (label) => {
        input.oninput = input.onkeydown = dialog.onclose = null;
        if (dialog.open) dialog.close();
        resolve(label);
      };
      input.oninput = () => {
        at = 0;
        draw();
      };
      input.onkeydown = (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
          at = (at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % (options.length || 1);
          draw();
        } else if (event.key === "Enter" && options.length) finish(options[at].label);
        else return;
        event.preventDefault();
      };
      // A close event comes late: that of the chooser before may arrive when this one is open.
      dialog.onclose = () => dialog.open || finish(null);
      draw();
      dialog.showModal();
      input.focus();
    });
  };
})(window.Triage);
