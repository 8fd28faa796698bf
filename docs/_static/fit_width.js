// Shrink formulas and tables that are wider than the page, so that nobody has to scroll them.
function fitWidth() {
  const boxes = "div.math, .pst-scrollable-table-container, .output_html";
  for (const box of document.querySelectorAll(boxes)) {
    const inner = box.querySelector("table") ?? box.firstElementChild;
    inner.style.fontSize = "";
    // Padding and words do not shrink in step with the letters: try again.
    for (let i = 0; i < 4 && box.scrollWidth > box.clientWidth; i++) {
      const size = parseFloat(getComputedStyle(inner).fontSize);
      const ratio = box.clientWidth / box.scrollWidth;
      inner.style.fontSize = `${Math.max(7.5, 0.97 * ratio * size)}px`;
    }
  }
}
document.addEventListener("DOMContentLoaded", fitWidth);
window.addEventListener("resize", fitWidth);
