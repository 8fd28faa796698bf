"use strict";
// The state of the page: what the report says, what the slider says, what the user says.
window.Triage = {};

(function (T) {
  const UNKNOWN = -1;
  const FORMULA = /^'*(?:[ \t\r\n]*[=+\-@]|[\t\r\n])/;
  const NUMBER = /^[+-]?\d+(\.\d+)?$/;

  // A logistic curve around the threshold tells how sure a decision is.
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  class Model {
    constructor(data) {
      this.pending = new Map(); // row -> label as text
      this.history = [];
      this.load(data);
      this.restore();
    }

    // Take over a report; corrections that it already knows are no longer pending.
    load(data) {
      this.data = data;
      this.n = data.name.length;
      this.given = data.given.map((code) =>
        code < 0 ? null : code === data.classes.length ? data.unknown : data.classes[code]
      );
      for (const [row, label] of this.pending) {
        if (this.given[row] === label) this.pending.delete(row);
      }
      if (!this.mode || (this.mode === "p_value" && !data.pValue)) this.mode = data.rule.kind;
      if (!this.moved) this.resetRule();
      this.decide();
    }

    resetRule() {
      this.moved = false;
      this.mode = this.data.rule.kind;
      this.threshold = this.data.rule.threshold;
      this.alpha = this.data.rule.alpha;
    }

    // What was said about a row: by a correction on this page, or by one that is in the report.
    said(row) {
      return this.pending.has(row) ? this.pending.get(row) : this.given[row];
    }

    isDone(row) {
      return this.said(row) !== null;
    }

    labelOf(row) {
      return this.labeller()(row);
    }

    // Tells the labels of now, also when others have been decided on.
    labeller() {
      const { decision, labels, data } = this;
      return (row) => (decision[row] === UNKNOWN ? data.unknown : labels[decision[row]]);
    }

    // The code of every row's decision, how many there are of each, and how doubtful each is.
    decide() {
      const { data, n } = this;
      this.labels = data.classes.slice();
      const codes = new Map(this.labels.map((label, code) => [label, code]));
      codes.set(data.unknown, UNKNOWN);
      for (const label of this.pending.values()) {
        if (label !== null && !codes.has(label)) {
          codes.set(label, this.labels.length);
          this.labels.push(label);
        }
      }
      const byP = this.mode === "p_value";
      const values = byP ? data.pValue : data.score;
      const cut = byP ? this.pCut() : this.threshold;
      const scale = this.scale();
      this.decision = new Int32Array(n);
      this.doubt = new Float32Array(n);
      this.counts = new Int32Array(this.labels.length);
      this.nUnknown = 0;
      this.sorted = new Map(); // order -> all rows in it, when a view first asks
      for (let row = 0; row < n; row++) {
        const said = this.said(row);
        const isUnknown = byP ? values[row] !== null && values[row] <= cut : values[row] > cut;
        const code =
          said !== null ? codes.get(said) : isUnknown ? UNKNOWN : data.label[row];
        this.decision[row] = code;
        if (code === UNKNOWN) this.nUnknown++;
        else this.counts[code]++;
        const above = byP ? 2 * Math.log((cut + 1e-9) / (values[row] || 1)) : (values[row] - cut) / scale;
        const outside = sigmoid(above);
        const sure = code === UNKNOWN ? outside : (1 - outside) * data.probability[row];
        this.doubt[row] = said !== null ? -1 : 1 - sure;
      }
    }

    scale() {
      if (this.scaleOf === this.data) return this.scaleValue;
      const ordered = Float64Array.from(this.data.score).sort();
      const at = (share) => ordered[Math.floor(share * (ordered.length - 1))];
      this.scaleOf = this.data;
      this.scaleValue = (at(0.75) - at(0.25)) / 4 || 1;
      return this.scaleValue;
    }

    // The largest p-value that counts as unknown (Benjamini and Hochberg for "fdr").
    pCut() {
      const { rule, pValue } = this.data;
      if (rule.control !== "fdr") return this.alpha;
      const open = pValue.filter((p, row) => p !== null && this.given[row] === null);
      open.sort((a, b) => a - b);
      for (let k = open.length; k > 0; k--) {
        if (open[k - 1] <= (this.alpha * k) / open.length) return open[k - 1];
      }
      return 0;
    }

    // One step of undo: a label for all rows, or one for each of them.
    correct(rows, label) {
      const labelOf = typeof label === "function" ? label : () => label;
      this.history.push({ rows, before: rows.map((row) => this.pending.get(row)) });
      for (const row of rows) this.put(row, labelOf(row));
      this.changed(rows);
    }

    undo() {
      const last = this.history.pop();
      if (!last) return null;
      last.rows.forEach((row, i) => this.put(row, last.before[i]));
      this.changed(last.rows);
      return last.rows;
    }

    put(row, label) {
      if (label !== undefined) this.pending.set(row, label);
      // In the live loop the server may know it by now: then it has to be taken back there.
      else if (T.isLive && this.given[row] !== null) this.pending.set(row, null);
      else this.pending.delete(row);
    }

    changed(rows) {
      this.decide();
      this.store();
      if (this.onchange) this.onchange(rows);
    }

    // Kept over a reload, under the report's own key.
    get key() {
      return `oslo-triage:${this.data.id}`;
    }

    store() {
      try {
        if (this.pending.size) localStorage.setItem(this.key, JSON.stringify([...this.pending]));
        else localStorage.removeItem(this.key);
      } catch (error) {
        this.storageFails = true;
      }
    }

    restore() {
      try {
        const kept = JSON.parse(localStorage.getItem(this.key) || "[]");
        for (const [row, label] of kept) {
          if (Number.isInteger(row) && row >= 0 && row < this.n && this.given[row] !== label) {
            this.pending.set(row, label === null ? null : String(label));
          }
        }
      } catch (error) {
        this.storageFails = true;
      }
      this.decide();
    }

    // Everything that was said, also by earlier files: the export replaces them.
    allCorrections() {
      const rows = [];
      for (let row = 0; row < this.n; row++) if (this.isDone(row)) rows.push(row);
      return rows;
    }

    progress() {
      const { suggested, suggestedDone } = this.data;
      let done = suggestedDone || 0;
      let total = done;
      for (let row = 0; row < this.n; row++) {
        if (!suggested[row]) continue;
        total++;
        if (this.isDone(row)) done++;
      }
      return { done, total };
    }

    toCsv() {
      const lines = [["path", "label"]];
      for (const row of this.allCorrections()) lines.push([this.data.name[row], this.said(row)]);
      return encode(lines.map((line) => line.map(cell).join(",") + "\r\n").join(""));
    }
  }

  // A cell that a spreadsheet shows and does not run.
  function cell(text) {
    const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replace(/"/g, '""')}"` : safe;
  }

  // UTF-8; bytes of a file name that are no text stand as lone surrogates and become bytes again.
  function encode(text) {
    const parts = [];
    let start = 0;
    for (const match of text.matchAll(/[\udc80-\udcff]/gu)) {
      parts.push(text.slice(start, match.index));
      parts.push(new Uint8Array([match[0].charCodeAt(0) - 0xdc00]));
      start = match.index + 1;
    }
    parts.push(text.slice(start));
    return parts;
  }

  T.UNKNOWN = UNKNOWN;
  T.Model = Model;
})(window.Triage);
