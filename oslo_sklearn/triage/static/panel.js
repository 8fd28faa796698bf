"use strict";
// Around the grid: tabs, the slider with its histogram, checks of the labelled rows, progress.
(function (T) {
  const { $, el } = T;
  const BINS = 60;
  let drawn = null; // the counts that the histogram shows

  // Tabs: [view, title, count, kind]
  function tabs() {
    const m = T.model;
    const { done, total } = m.progress();
    const list = [
      ["suggested", "Suggested", total ? `${done}/${total}` : "0", "plain"],
      ["unknown", capital(m.data.unknown), m.nUnknown, "unknown"],
    ];
    m.labels.forEach((label, code) => list.push([`class:${label}`, label, m.counts[code], "known"]));
    list.push(["all", "All", m.n, "plain"], ["done", "Corrected", m.allCorrections().length, "plain"]);
    return list;
  }

  const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

  T.drawTabs = function () {
    const list = tabs();
    if (!list.some(([view]) => view === T.view)) T.view = "unknown";
    const hadFocus = document.activeElement && document.activeElement.getAttribute("role") === "tab";
    const nodes = [];
    let number = 0;
    for (const [view, title, count, kind] of list) {
      const key = kind === "known" && ++number <= 9 ? String(number) : null;
      nodes.push(
        el(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": String(view === T.view),
            "aria-controls": "main",
            tabindex: view === T.view ? "0" : "-1",
            class: `tab ${kind}`,
            "data-view": view,
            title,
          },
          key ? el("kbd", {}, key) : el("span", { class: "dot", "aria-hidden": "true" }),
          el("span", { class: "tab-title" }, title),
          el("span", { class: "tab-count" }, typeof count === "number" ? count.toLocaleString("en") : count)
        )
      );
      if (view === "unknown" && T.view === "unknown") nodes.push(...groupLinks());
    }
    $("tabs").replaceChildren(...nodes);
    const now = $("tabs").querySelector("[aria-selected=true]");
    if (hadFocus) now.focus();
    const { offsetLeft, offsetWidth } = now;
    const strip = $("tabs").parentElement;
    if (strip.scrollWidth > strip.clientWidth) strip.scrollLeft = offsetLeft - (strip.clientWidth - offsetWidth) / 2;
  };

  function groupLinks() {
    const groups = T.grid ? T.grid.sections.filter((section) => section.group >= 0) : [];
    return groups.slice(0, 30).map((section) =>
      el(
        "button",
        { type: "button", role: "tab", "aria-selected": "false", tabindex: "-1", class: "tab group", onclick: () => T.grid.goToGroup(section.group) },
        el("span", { class: "tab-title" }, section.title),
        el("span", { class: "tab-count" }, section.rows.length.toLocaleString("en"))
      )
    );
  }

  T.stepTab = function (step) {
    const views = tabs().map(([view]) => view);
    T.setView(views[(views.indexOf(T.view) + step + views.length) % views.length]);
  };

  // The slider and its histogram have one scale: scores, or p-values.
  T.drawRule = function () {
    const m = T.model;
    const byP = m.mode === "p_value";
    const range = byP ? [0, 1] : scoreRange(m.data);
    const slider = $("slider");
    slider.min = range[0];
    slider.max = range[1];
    slider.step = byP ? 0.005 : (range[1] - range[0]) / 500;
    const value = byP ? m.alpha : m.threshold;
    slider.value = value;
    // Small p-values are the unknown ones, large scores are.
    document.querySelector(".rule-ends").classList.toggle("turned", byP);
    const shown = byP ? `alpha ${T.number(value, 3)}` : `threshold ${T.number(value)}`;
    $("slider-text").textContent = shown;
    slider.setAttribute("aria-label", byP ? "Alpha, the level of the p-values" : "Threshold of the outlierness");
    slider.setAttribute("aria-valuetext", `${shown}: ${m.n - m.nUnknown} known, ${m.nUnknown} ${m.data.unknown}`);
    $("n-known").textContent = (m.n - m.nUnknown).toLocaleString("en");
    $("n-unknown").textContent = m.nUnknown.toLocaleString("en");
    $("unknown-word").textContent = m.data.unknown;
    $("rule-text").replaceChildren(...ruleText());
    $("rule-reset").disabled = !m.moved;
    $("rule-mode").hidden = !m.data.pValue;
    $("rule-mode").textContent = byP ? "Use outlierness" : "Use p-values";
    histogram(range, byP ? m.pCut() : m.threshold, byP);
  };

  function ruleText() {
    const { rule } = T.model.data;
    const m = T.model;
    if (!m.moved) return [[`${capital(rule.text)}.`, ...rule.notes].join(" ")];
    const option =
      m.mode === "p_value" ? `--alpha ${m.alpha.toFixed(3)} --control ${rule.control}` : `--threshold ${m.threshold.toPrecision(4)}`;
    const promise = m.mode === "p_value" ? `: ${rule.promise.replace("{}", `${+(100 * m.alpha).toFixed(1)}%`)}` : "";
    return [`Chosen by you, on this page only${promise}. To decide so everywhere, run again with `, el("code", {}, option)];
  }

  // Computed once for each report: a key is to be answered at once, however many rows there are.
  const once = (compute) => {
    const kept = new WeakMap();
    return (data) => {
      if (!kept.has(data)) kept.set(data, compute(data));
      return kept.get(data);
    };
  };

  const scoreRange = once((data) => {
    const ordered = Float64Array.from(data.score).sort();
    const at = (share) => ordered[Math.round(share * (ordered.length - 1))];
    const low = Math.min(at(0.005), data.rule.threshold);
    const high = Math.max(at(0.995), data.rule.threshold);
    const margin = (high - low) * 0.05 || 1;
    return [low - margin, high + margin];
  });

  // How many rows that nothing was said about fall into each bin.
  const inBins = (data, values, [low, high]) => {
    const counts = new Array(BINS).fill(0);
    values.forEach((value, row) => {
      if (value === null || data.given[row] >= 0) return;
      const bin = Math.floor(((value - low) / (high - low)) * BINS);
      counts[Math.max(0, Math.min(BINS - 1, bin))]++;
    });
    return counts;
  };
  const scoreBins = once((data) => inBins(data, data.score, scoreRange(data)));
  const pBins = once((data) => inBins(data, data.pValue, [0, 1]));

  function histogram([low, high], cut, byP) {
    const m = T.model;
    const counts = byP ? pBins(m.data) : scoreBins(m.data);
    const svg = $("histogram");
    if (drawn !== counts) svg.replaceChildren(...counts.map(bar));
    drawn = counts;
    [...svg.children].forEach((one, bin) => {
      const middle = low + ((bin + 0.5) / BINS) * (high - low);
      const isUnknown = byP ? middle <= cut : middle > cut;
      one.setAttribute("class", isUnknown ? "unknown" : "known");
    });
    const what = byP ? "p-values" : "outlierness";
    svg.setAttribute("aria-label", `Histogram of the ${what}: ${m.n - m.nUnknown} known, ${m.nUnknown} unknown`);
  }

  function bar(count, bin, counts) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = count ? 1.5 + 38 * Math.sqrt(count / Math.max(...counts)) : 0;
    const box = { x: bin + 0.1, y: 40 - height, width: 0.8, height };
    for (const [key, size] of Object.entries(box)) node.setAttribute(key, size);
    return node;
  }

  // Checks of the labelled rows, first on the page.
  T.drawChecks = function () {
    const { checks } = T.model.data;
    $("checks").hidden = !checks.length;
    if (!checks.length) return;
    const counts = new Map();
    for (const check of checks) counts.set(check.kind, (counts.get(check.kind) || 0) + 1);
    const words = {
      unlike: (n) => `${n} labelled ${n === 1 ? "example looks" : "examples look"} like another class`,
      single: () => "classes with one example",
      duplicate: (n) => `${n} near-${n === 1 ? "duplicate" : "duplicates"} of labelled ones`,
      unreadable: (n) => `${n} unreadable ${n === 1 ? "file" : "files"}`,
    };
    const parts = [...counts].map(([kind, n]) => words[kind](n));
    $("checks-summary").replaceChildren(el("b", {}, "Check first: "), parts.join(" · "));
    $("checks-list").replaceChildren(...checks.slice(0, 60).map(checkItem));
  };

  function checkItem(check) {
    const { data } = T.model;
    const pictures = el("span", { class: "check-pictures" });
    if (check.support !== null && data.support.kind === "image") {
      pictures.append(T.picture(T.supportThumb(check.support), `labelled ${data.support.label[check.support]}`));
    }
    if (check.query !== null && data.kind === "image") {
      pictures.append(T.picture(T.thumb(check.query), `in the pile: ${T.baseName(data.name[check.query])}`));
    }
    const item = el("li", { class: "check" }, pictures, el("span", { class: "check-text", title: check.text }, T.checkText(check)));
    const look = check.query !== null ? () => T.openDetail(check.query) : () => T.openCheck(check);
    if (check.support !== null) item.append(el("button", { type: "button", onclick: look }, "Look"));
    return item;
  }

  // Shorter than the command says it: names without their folders. Two of the same name are told
  // apart by the label.
  T.checkText = function (check) {
    const { data } = T.model;
    const short = (names, texts, index) => {
      if (!texts) return T.title(names[index]);
      return texts[index].length > 30 ? `“${texts[index].slice(0, 30)}…”` : `“${texts[index]}”`;
    };
    if (check.support === null) return check.text;
    const labelled = short(data.support.name, data.support.text, check.support);
    const label = data.support.label[check.support];
    if (check.kind === "unlike") return `${labelled} is labelled ${label} and looks more like ${check.other}`;
    const other = short(data.name, data.text, check.query);
    return `${other} and ${labelled}${other === labelled ? ` (labelled ${label})` : ""} are nearly the same`;
  };

  T.drawProgress = function () {
    const m = T.model;
    const { done, total } = m.progress();
    $("progress").max = total || 1;
    $("progress").value = done;
    const all = m.allCorrections().length;
    let text = total ? `${done} of ${total} suggested done` : "nothing suggested";
    if (total && done === total && !T.isLive) text += ": export, and run again";
    $("progress-text").textContent = text;
    $("export-count").textContent = all ? `(${all.toLocaleString("en")})` : "";
    $("export").disabled = !all;
    $("undo").disabled = !m.history.length;
  };
})(window.Triage);
