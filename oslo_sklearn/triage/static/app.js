"use strict";
// Start, actions and keys.
(function (T) {
  const { $ } = T;
  const GRACE = 500; // milliseconds to see new decisions
  let toastTimer = null;
  let isSliding = false;
  let before = null; // what was to be seen before new decisions came

  // The name of a photo may be long: it gives way to the text.
  T.say = function (text, name = "") {
    $("status").replaceChildren(T.el("span", { class: "name" }, name), T.el("span", {}, text));
    $("status").classList.add("shown");
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => $("status").classList.remove("shown"), 4000);
  };

  T.setView = function (view) {
    const isOther = view !== T.view;
    T.view = view;
    showView(!isOther);
  };

  // Find the rows of the view anew, and draw everything that counts them.
  function showView(keep = true, first = null) {
    const sections = T.sections(T.view, $("sort").value, $("search").value, first);
    T.grid.show(sections, keep);
    if (!keep) $("main").scrollTop = Math.min($("main").scrollTop, T.grid.top());
    const title = T.view.startsWith("class:") ? T.view.slice(6) : { all: "All", done: "Corrected", suggested: "Suggested", unknown: T.model.data.unknown }[T.view];
    const n = T.grid.order.length;
    $("view-title").textContent = `${title.charAt(0).toUpperCase()}${title.slice(1)} `;
    $("view-title").append(T.el("span", { class: "muted" }, T.things(n)), T.el("span", { class: "hint" }, n ? hint() : ""));
    $("empty").hidden = n > 0;
    $("empty").textContent = emptyText();
    drawAround();
  }

  function hint() {
    if (T.view === "suggested") return "start here: accept each one or correct it";
    return T.view === "unknown" && T.grid.sections[0].group >= 0 ? "look-alikes: name a whole group at once" : "";
  }

  function emptyText() {
    const noun = T.noun();
    if ($("search").value) return "Nothing here matches the search. Try the view All.";
    const texts = {
      done: `Nothing is corrected yet. Mark a ${noun}, then press a to accept, r to label, u for unknown or n for a new class.`,
      suggested: "There is nothing left to suggest.",
      unknown: `No ${noun} is ${T.model.data.unknown} at this threshold. Move the slider to see the most doubtful ones.`,
    };
    return texts[T.view] || `No ${noun} is of this class.`;
  }

  function drawAround() {
    T.drawTabs();
    T.drawProgress();
  }

  // New decisions from the live loop: same view, same place, and the marked one stays marked. A key
  // that is already on its way is for what was marked before.
  T.update = function (data) {
    const { row, section } = T.grid;
    const labelOf = T.model.labeller();
    T.model.load(data);
    T.model.store();
    T.drawRule();
    T.drawChecks();
    showView(true, row);
    if (T.grid.row !== row && T.view === "suggested") T.grid.go(0);
    before = section && { row, rows: section.rows, labelOf, marked: T.grid.row, until: performance.now() + GRACE };
    if ($("detail").open) T.openDetail(T.detailRow);
  };

  // The rows that a key is for, and the labels that it accepts.
  function targets(isWhole) {
    const now = { row: T.grid.row, rows: T.grid.section?.rows, labelOf: T.model.labeller() };
    if ($("detail").open) return [[T.detailRow], now.labelOf];
    const isLate = before && before.marked === now.row && performance.now() < before.until;
    const { row, rows, labelOf } = isLate ? before : now;
    before = null;
    if (row === null) return [[], labelOf];
    return [isWhole ? openRows(rows) : [row], labelOf];
  }

  // In a whole section, what was said about single rows stays.
  function openRows(rows) {
    const open = rows.filter((row) => !T.model.isDone(row));
    return open.length ? open : rows;
  }

  T.actOnSection = (name, section) => act(name, openRows(section.rows));
  const whom = (rows) => (rows.length === 1 ? T.titleOf(rows[0]) : T.things(rows.length));
  T.act = (name, isWhole = false) => act(name, ...targets(isWhole));

  async function act(name, rows, labelOf) {
    const m = T.model;
    if (name === "undo") return undo();
    if (name === "export") return save();
    if (name === "previous" || name === "next") return turn(name === "next" ? 1 : -1);
    if (!rows.length) return undefined;
    if (name === "open") return T.openDetail(rows[0]);
    if (name === "accept") return accept(rows, labelOf);
    let label = name.startsWith("class:") ? name.slice(6) : m.data.unknown;
    if (name === "relabel" || name === "new") {
      label = await T.choose(`${name === "new" ? "New class" : "Label"} for ${whom(rows)}`, name === "new");
      if (label === null) return undefined;
    }
    return put(rows, label);
  }

  function accept(rows, labelOf) {
    const labels = new Set(rows.map(labelOf));
    put(rows, labelOf, labels.size === 1 ? [...labels][0] : "accepted");
  }

  function put(rows, label, text = label) {
    T.model.correct(rows, label);
    T.grid.refresh(rows);
    drawAround();
    T.drawRule();
    T.say(`: ${text}. Undo: z`, whom(rows));
    if ($("detail").open) turn(1);
    else if (rows.includes(T.grid.row)) T.grid.next();
  }

  function undo() {
    const rows = T.model.undo();
    if (!rows) return;
    T.grid.refresh(rows);
    drawAround();
    T.drawRule();
    T.grid.goToRow(rows[0]);
    if ($("detail").open) T.openDetail(rows[0]);
    T.say(`Undone: ${T.things(rows.length)}`);
  }

  function turn(step) {
    const position = T.grid.positionOf.get(T.detailRow);
    T.grid.go((position ?? T.grid.current) + step);
    if ($("detail").open && T.grid.row !== null) T.openDetail(T.grid.row);
  }

  function save() {
    const n = T.model.allCorrections().length;
    if (!n) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(T.model.toCsv(), { type: "text/csv" }));
    link.download = "corrections.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    T.say(`corrections.csv has ${T.plural(n, "label")}. Run again with --corrections corrections.csv`);
  }

  function nextSuggested() {
    if (T.view !== "suggested") T.setView("suggested");
    const row = T.grid.order.find((one) => !T.model.isDone(one));
    if (row !== undefined) T.grid.goToRow(row);
    $("grid").focus({ preventScroll: true });
  }

  const letters = { a: "accept", r: "relabel", u: "unknown", n: "new", z: "undo", e: "export" };

  function key(event) {
    if ($("chooser").open || $("help").open || $("check").open) return;
    const { target } = event;
    const isTyping = target.matches("input[type=search], input[type=text], select");
    if (isTyping) {
      if (event.key === "Escape" || (event.key === "Enter" && target.id === "search")) $("grid").focus();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "z") {
      event.preventDefault();
      undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move(event) || command(event)) event.preventDefault();
  }

  function command(event) {
    const name = letters[event.key.toLowerCase()];
    if (name) return T.act(name, event.shiftKey), true;
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code);
    if (digit) {
      const label = T.model.labels[digit[1] - 1];
      if (label !== undefined) T.act(`class:${label}`, event.shiftKey);
      return true;
    }
    const others = {
      "/": () => $("search").focus(),
      "?": () => $("help").showModal(),
      "[": () => T.stepTab(-1),
      "]": () => T.stepTab(1),
      s: nextSuggested,
    };
    if (!others[event.key] || ($("detail").open && event.key !== "?")) return false;
    others[event.key]();
    return true;
  }

  // Arrows move the mark in the grid, the tab in the list of tabs, the photo in the large view.
  function move(event) {
    const { target } = event;
    if (target.matches("input[type=range]")) return false;
    if ($("detail").open) {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (step) turn(step);
      return Boolean(step);
    }
    if (target.getAttribute("role") === "tab") {
      const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
      if (step) T.stepTab(step);
      return Boolean(step);
    }
    if (target.matches("button, summary, a") && (event.key === "Enter" || event.key === " ")) return false;
    const { grid } = T;
    const page = () => Math.max(1, Math.floor($("main").clientHeight / (grid.tile + 40))) * grid.columns;
    const steps = {
      ArrowLeft: () => grid.go(grid.current - 1),
      ArrowRight: () => grid.go(grid.current + 1),
      ArrowUp: () => grid.vertical(-1),
      ArrowDown: () => grid.vertical(1),
      PageUp: () => grid.go(grid.current - page()),
      PageDown: () => grid.go(grid.current + page()),
      Home: () => grid.go(0),
      End: () => grid.go(grid.order.length - 1),
      Enter: () => T.act("open"),
    };
    if (!steps[event.key]) return false;
    steps[event.key]();
    return true;
  }

  function slide() {
    const m = T.model;
    const value = Number($("slider").value);
    m.moved = true;
    if (m.mode === "p_value") m.alpha = value;
    else m.threshold = value;
    if (isSliding) return;
    isSliding = true;
    requestAnimationFrame(() => {
      isSliding = false;
      ruleChanged();
    });
  }

  function ruleChanged() {
    T.model.decide();
    T.drawRule();
    showView();
  }

  function theme(choice) {
    document.documentElement.dataset.theme = choice;
    try {
      localStorage.setItem("oslo-triage-theme", choice);
    } catch (error) {
      // Without storage the choice lasts as long as the page.
    }
  }

  function listen() {
    document.addEventListener("keydown", key);
    $("tabs").addEventListener("click", (event) => {
      const tab = event.target.closest("[data-view]");
      if (tab) T.setView(tab.dataset.view);
    });
    $("slider").addEventListener("input", slide);
    $("rule-reset").addEventListener("click", () => {
      T.model.resetRule();
      ruleChanged();
    });
    $("rule-mode").addEventListener("click", () => {
      T.model.moved = true;
      T.model.mode = T.model.mode === "p_value" ? "threshold" : "p_value";
      ruleChanged();
    });
    $("search").addEventListener("input", () => showView(false));
    $("sort").addEventListener("change", () => showView(false));
    $("undo").addEventListener("click", undo);
    $("export").addEventListener("click", save);
    $("help-button").addEventListener("click", () => $("help").showModal());
    $("theme").addEventListener("click", () => {
      const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
      theme(isDark ? "light" : "dark");
    });
    $("actions").addEventListener("click", (event) => {
      const button = event.target.closest("[data-act]");
      if (button) T.act(button.dataset.act);
    });
    for (const dialog of [$("detail"), $("check"), $("chooser")]) {
      dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    }
  }

  function start() {
    const { data } = T.model;
    document.title = `Triage: ${T.things(data.name.length)}`;
    $("title").replaceChildren(T.things(data.name.length), T.el("span", { class: "method" }, ` sorted by ${data.method}`));
    $("help-next").append(
      ...(T.isLive
        ? ["Every correction is written to corrections.csv in the output folder, and the pile is decided again."]
        : ["Corrections stay in this browser. Export them, and run the command again with ", T.el("code", {}, "--corrections corrections.csv")])
    );
    $("export").classList.toggle("primary", !T.isLive); // there everything is kept as it is said
    $("checks").open = window.innerWidth > 700;
    const places = data.kind === "text" ? "texts" : "names";
    $("search").placeholder = $("search").ariaLabel = `Search ${places} and labels`;
    T.view = T.model.progress().total ? "suggested" : "unknown";
    T.model.onchange = (rows) => T.isLive && T.send && T.send(rows);
    T.grid = new T.Grid($("grid"), $("main"));
    listen();
    T.drawChecks();
    T.drawRule();
    showView(false);
    $("grid").focus({ preventScroll: true });
    T.startLive();
    if (T.model.storageFails) T.say("This browser keeps nothing: export before you leave.");
  }

  try {
    const kept = localStorage.getItem("oslo-triage-theme");
    if (kept) theme(kept);
  } catch (error) {
    // The system's own choice is fine, too.
  }
  T.model = new T.Model(JSON.parse($("data").textContent));
  start();
})(window.Triage);
