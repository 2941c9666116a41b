/* A confusion matrix: rows are what is true, columns what the model said. A cell is a button that leads to what it counts. */
"use strict";

/** confusion: {classes, unit, counts}. onChoose: called with (true class, named class). */
function confusionMatrix(confusion, onChoose) {
  const { classes, counts, unit } = confusion;
  const short = classes.map((name) => make("th", { scope: "col", class: "turned" }, make("span", { name })));
  const rows = classes.map((name, own) => {
    const total = counts[own].reduce((sum, count) => sum + count, 0);
    const cells = counts[own].map((count, named) => matrixCell(count, total, own, named, confusion, onChoose));
    return make("tr", {}, make("th", { scope: "row", name }), ...cells);
  });
  const head = make("tr", {}, make("td", { class: "corner muted", text: "true ↓  said →" }), ...short);
  const table = make("table", { class: "matrix", "aria-label": `Confusion matrix, in ${unit}` }, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "scroll" }, table);
}

function matrixCell(count, total, own, named, { classes, unit }, onChoose) {
  const cell = make("td", { class: own === named ? "right" : "wrong" });
  if (!count) return cell;
  const share = count / total;
  const said = `${visible(classes[own])} taken for ${visible(classes[named])}: ${count} ${unit}, ${percent(share)} of its own`;
  const button = make("button", { type: "button", "aria-label": said, title: said, text: matrixText(count) });
  button.style.setProperty("--share", share.toFixed(3));
  button.classList.toggle("strong", share > 0.55);
  button.addEventListener("click", () => {
    for (const other of cell.closest("table").querySelectorAll("[aria-pressed]")) other.removeAttribute("aria-pressed");
    button.setAttribute("aria-pressed", "true");
    onChoose(own, named);
  });
  cell.append(button);
  return cell;
}

function matrixText(count) {
  return count < 1000 ? String(count) : short(count).replace(" ", "");
}
