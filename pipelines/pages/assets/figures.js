/* Figures of a page: a title, a value and a remark each. */
"use strict";

/** [[title, value, remark], …] as a list. */
function figureList(figures) {
  const list = make("dl", { class: "figures" });
  for (const [title, value, remark] of figures) {
    list.append(make("div", {}, make("dt", { name: title }), make("dd", { name: value }, remark ? make("small", { name: remark }) : null)));
  }
  return list;
}
