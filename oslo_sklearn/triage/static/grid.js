"use strict";
// The grid: only the lines that can be seen are in the document, however many rows there are.
(function (T) {
  const { $, el } = T;
  const GAP = 8;
  const HEADER = 44;
  const MARGIN = 300; // pixels above and below that are kept ready

  class Grid {
    constructor(node, scroller) {
      this.node = node;
      this.scroller = scroller;
      this.sections = [];
      this.lines = [];
      this.shown = new Map(); // line number -> element
      this.current = -1; // position in this.order
      this.order = [];
      scroller.addEventListener("scroll", () => this.soon(), { passive: true });
      new ResizeObserver(() => this.resize()).observe(node);
      node.addEventListener("click", (event) => this.click(event));
      node.addEventListener("dblclick", (event) => {
        if (event.target.closest("[data-row]")) T.openDetail(this.row);
      });
    }

    // Show sections; keep the marked row where it still is, or mark the one at its place.
    show(sections, keep = true) {
      const marked = keep ? this.row : null;
      const height = this.height(); // of the marked line in the window, which is to stay
      const place = keep ? Math.max(this.current, 0) : 0;
      this.sections = sections;
      this.order = sections.flatMap((section) => section.rows);
      this.positionOf = new Map(this.order.map((row, i) => [row, i]));
      const found = marked === null ? undefined : this.positionOf.get(marked);
      this.current = found ?? Math.min(place, this.order.length - 1);
      this.layout();
      if (keep && found !== undefined && height > 0 && height < this.scroller.clientHeight) {
        this.scroller.scrollTop += this.height() - height;
        this.draw();
      }
    }

    height() {
      const line = this.current >= 0 ? this.lines[this.lineOf[this.current]] : null;
      return line ? line.top + this.node.offsetTop - this.scroller.scrollTop : 0;
    }

    get row() {
      return this.current >= 0 ? this.order[this.current] : null;
    }

    // The rows of the section that the marked one is in.
    get section() {
      return this.sections.find((section) => section.rows.includes(this.row)) || null;
    }

    resize() {
      if (this.node.clientWidth !== this.width) this.layout();
    }

    layout() {
      const { kind } = T.model.data;
      this.width = this.node.clientWidth;
      const wanted = kind === "image" ? (this.width < 560 ? 104 : 148) : kind === "text" ? 260 : Infinity;
      this.columns = Math.max(1, Math.floor((this.width + GAP) / (wanted + GAP)));
      this.tile = (this.width - GAP * (this.columns - 1)) / this.columns;
      const height = kind === "image" ? this.tile + 40 : kind === "text" ? 132 : 34;
      this.lines = [];
      this.lineOf = new Int32Array(this.order.length);
      let top = 0;
      let position = 0;
      for (const section of this.sections) {
        if (section.title) {
          this.lines.push({ top, height: HEADER, section });
          top += HEADER;
        }
        for (let i = 0; i < section.rows.length; i += this.columns) {
          const rows = section.rows.slice(i, i + this.columns);
          rows.forEach((_, j) => (this.lineOf[position + j] = this.lines.length));
          this.lines.push({ top, height, rows, start: position });
          position += rows.length;
          top += height + (kind === "row" ? 0 : GAP);
        }
        top += section.title ? GAP : 0;
      }
      this.node.style.height = `${top}px`;
      this.node.setAttribute("aria-rowcount", this.lines.length);
      this.node.classList.toggle("table", kind === "row");
      this.clear();
      this.draw();
    }

    clear() {
      this.node.replaceChildren();
      this.shown.clear();
    }

    soon() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.draw();
      });
    }

    // Put the lines into the document that can be seen, take the others out.
    draw() {
      const offset = this.scroller.scrollTop - this.node.offsetTop;
      const first = this.lineAt(offset - MARGIN);
      const last = this.lineAt(offset + this.scroller.clientHeight + MARGIN);
      for (const [index, node] of this.shown) {
        if (index < first || index > last) {
          node.remove();
          this.shown.delete(index);
        }
      }
      for (let index = first; index <= last && index < this.lines.length; index++) {
        if (!this.shown.has(index)) {
          const node = this.line(index);
          this.shown.set(index, node);
          this.node.append(node);
        }
      }
      this.mark();
    }

    lineAt(top) {
      let low = 0;
      let high = this.lines.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.lines[middle].top <= top) low = middle;
        else high = middle - 1;
      }
      return low;
    }

    line(index) {
      const line = this.lines[index];
      const node = el("div", { role: "row", "aria-rowindex": index + 1, class: line.rows ? "line" : "section" });
      node.style.transform = `translateY(${line.top}px)`;
      node.style.height = `${line.height}px`;
      if (line.rows) {
        node.style.gridTemplateColumns = `repeat(${this.columns}, ${this.tile}px)`;
        node.append(...line.rows.map((row) => T.tile(row)));
      } else {
        node.append(sectionHeader(line.section));
      }
      return node;
    }

    // Draw again what has changed about these rows, in place.
    refresh(rows) {
      const changed = new Set(rows);
      for (const node of this.node.querySelectorAll("[data-row]")) {
        const row = Number(node.dataset.row);
        if (changed.has(row)) node.replaceWith(T.tile(row));
      }
      this.mark();
    }

    mark() {
      const before = this.node.querySelector("[aria-selected=true]");
      const row = this.row;
      const now = row === null ? null : $(`tile-${row}`);
      if (before && before !== now) before.setAttribute("aria-selected", "false");
      if (now) {
        now.setAttribute("aria-selected", "true");
        this.node.setAttribute("aria-activedescendant", now.id);
      } else {
        this.node.removeAttribute("aria-activedescendant");
      }
    }

    go(position) {
      if (!this.order.length) return;
      this.current = Math.max(0, Math.min(this.order.length - 1, position));
      this.reveal();
    }

    goToRow(row) {
      const position = this.positionOf.get(row);
      if (position !== undefined) this.go(position);
    }

    goToGroup(group) {
      const section = this.sections.find((one) => one.group === group);
      if (!section) return;
      this.current = this.positionOf.get(section.rows[0]);
      this.revealSection();
    }

    revealSection() {
      const line = this.lines.find((one) => one.section === this.section);
      this.scroller.scrollTop = line.top + this.top();
      this.draw();
    }

    // Where the window is scrolled to when the grid's beginning is its first line.
    top() {
      return this.node.offsetTop - sticky();
    }

    // One line up or down: the tile below in the next line, also across sections.
    vertical(step) {
      let index = this.lineOf[this.current] + step;
      while (this.lines[index] && !this.lines[index].rows) index += step;
      const line = this.lines[index];
      if (!line) return;
      const column = this.current - this.lines[this.lineOf[this.current]].start;
      this.go(line.start + Math.min(column, line.rows.length - 1));
    }

    reveal() {
      const line = this.lines[this.lineOf[this.current]];
      const top = line.top + this.node.offsetTop;
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop + sticky()) this.scroller.scrollTop = top - sticky() - HEADER;
      else if (top + line.height > scrollTop + clientHeight - GAP) {
        this.scroller.scrollTop = top + line.height - clientHeight + GAP;
      }
      this.draw();
    }

    // The next row after the marked one that nothing was said about.
    next() {
      const { section } = this;
      const isOpen = (row, position) => position > this.current && !T.model.isDone(row);
      const found = this.order.findIndex(isOpen);
      this.go(found < 0 ? this.current + 1 : found);
      if (this.section !== section) this.revealSection();
    }

    click(event) {
      const tile = event.target.closest("[data-row]");
      if (!tile) return;
      this.goToRow(Number(tile.dataset.row));
      this.node.focus({ preventScroll: true });
      if (event.target.closest("img, .no-image, .text, .name")) T.openDetail(this.row);
    }
  }

  const sticky = () => document.querySelector(".bar").offsetHeight;

  function sectionHeader(section) {
    const act = (name) => () => T.actOnSection(name, section);
    return el(
      "div",
      { role: "gridcell", class: "section-cell" },
      el("h3", {}, section.title),
      el("span", { class: "muted" }, T.things(section.rows.length)),
      el("button", { type: "button", tabindex: "-1", onclick: act("relabel") }, "Label all…"),
      el("button", { type: "button", tabindex: "-1", onclick: act("unknown") }, "All unknown")
    );
  }

  T.Grid = Grid;
})(window.Triage);
