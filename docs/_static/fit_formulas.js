// Shrink formulas that are wider than the page, so that nobody has to scroll them.
function fitFormulas() {
  for (const box of document.querySelectorAll("div.math")) {
    const formula = box.firstElementChild;
    formula.style.fontSize = "";
    const ratio = box.clientWidth / box.scrollWidth;
    if (ratio < 1) {
      const size = parseFloat(getComputedStyle(formula).fontSize);
      formula.style.fontSize = `${Math.max(8, 0.97 * ratio * size)}px`;
    }
  }
}
document.addEventListener("DOMContentLoaded", fitFormulas);
window.addEventListener("resize", fitFormulas);
