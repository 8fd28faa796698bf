"use strict";
// Views: which rows are shown, in which sections and order. And small helpers for the document.
(function (T) {
  T.$ = (id) => document.getElementById(id);

  // An element with attributes and children; text is always text, never markup.
  T.el = function (name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };

  T.baseName = (name) => name.split(/[\\/]/).pop() || name;
  T.number = (x, digits = 2) => (x === null ? "–" : x.toFixed(digits).replace("-", "−"));
  T.plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  const noun = { image: "photo", text: "text", row: "row" };
  T.noun = () => noun[T.model.data.kind];
  T.things = (n) => T.plural(n, T.noun());
  // Rows without a file have a number for a name, which says nothing alone.
  T.title = (name) => (/^\d+$/.test(name) ? `${T.noun()} ${name}` : T.baseName(name));
  T.titleOf = (row) => T.title(T.model.data.name[row]);

  T.assets = document.documentElement.dataset.assets;
  T.isLive = "live" in document.documentElement.dataset;
  T.thumb = (row) => `${T.assets}/thumbs/${row}.jpg`;
  T.supportThumb = function (index) {
    const row = T.model.data.support.row[index];
    return row >= 0 ? T.thumb(row) : `${T.assets}/thumbs/s${index}.jpg`;
  };
  T.large = function (row) {
    if (T.isLive) return `image/${row}`;
    const { href } = T.model.data;
    return href ? href.prefix + href.rest[row] : T.thumb(row);
  };

  // A picture that gives way to its name where there is no file.
  T.picture = function (source, alt, attributes = {}) {
    const image = T.el("img", { alt, decoding: "async", ...attributes });
    image.addEventListener("error", () => image.replaceWith(T.el("span", { class: "no-image" }, alt)), { once: true });
    image.src = source;
    return image;
  };

  const ALONE = -1; // groups of one, and rows that only the slider made unknown

  const orders = {
    doubt: (m) => (a, b) => m.doubt[b] - m.doubt[a] || a - b,
    sure: (m) => (a, b) => m.doubt[a] - m.doubt[b] || a - b,
    score: (m) => (a, b) => m.data.score[b] - m.data.score[a] || a - b,
    name: (m) => (a, b) => (m.data.name[a] < m.data.name[b] ? -1 : 1),
  };

  // Sections {title, rows} of a view; `first` stays the first of those suggested: "suggested", "unknown", "all", "done" or "class:NAME".
  T.sections = function (view, sort, search, first = null) {
    const m = T.model;
    const rows = matching(view, sortedRows(sort), search.trim().toLowerCase());
    if (view === "suggested" && sort === "doubt") {
      rows.sort((a, b) => (b === first) - (a === first) || m.data.suggested[a] - m.data.suggested[b]);
    }
    if (view !== "unknown") return rows.length ? [{ title: null, rows }] : [];
    const sizes = groupSizes();
    const groups = new Map();
    for (const row of rows) {
      const group = sizes.get(m.data.group[row]) > 1 ? m.data.group[row] : ALONE;
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(row);
    }
    return [...groups]
      .sort(([a, rowsA], [b, rowsB]) => (a < 0) - (b < 0) || rowsB.length - rowsA.length || a - b)
      .map(([group, members]) => ({
        title: group < 0 ? "On their own" : `Group ${group}`,
        group,
        rows: members,
      }));
  };

  // All rows in an order. Views are parts of it, so that another view needs no sorting.
  function sortedRows(sort) {
    const m = T.model;
    if (!m.sorted.has(sort)) m.sorted.set(sort, Array.from({ length: m.n }, (_, row) => row).sort(orders[sort](m)));
    return m.sorted.get(sort);
  }

  function groupSizes() {
    const sizes = new Map();
    for (const group of T.model.data.group) if (group >= 0) sizes.set(group, (sizes.get(group) || 0) + 1);
    return sizes;
  }

  function matching(view, rows, words) {
    const m = T.model;
    const code = view.startsWith("class:") ? m.labels.indexOf(view.slice(6)) : null;
    return rows.filter((row) => {
      if (code !== null ? m.decision[row] !== code : !isIn(view, row)) return false;
      if (!words) return true;
      const text = m.data.text ? m.data.text[row] : "";
      return `${m.data.name[row]}\n${m.labelOf(row)}\n${text}`.toLowerCase().includes(words);
    });
  }

  function isIn(view, row) {
    const m = T.model;
    if (view === "unknown") return m.decision[row] === T.UNKNOWN;
    if (view === "suggested") return m.data.suggested[row] > 0;
    if (view === "done") return m.isDone(row);
    return true;
  }
})(window.Triage);
