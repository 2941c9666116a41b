/* A table of any length that sorts by its columns: only the rows in sight are elements. */
"use strict";

const TABLE_ROW = 37; // pixels
const AROUND = 8; // rows drawn above and below what is in sight

class SortedTable {
  /**
   * columns: [{title, value: (item) => number or text, cell: (item) => element or text, numeric}].
   * onChoose: called with an item when its row is clicked.
   */
  constructor(container, { label, columns, onChoose, empty }) {
    this.columns = columns;
    this.onChoose = onChoose;
    this.items = [];
    this.order = { column: 0, down: false };
    this.chosen = null;
    this.head = make("tr");
    this.body = make("tbody");
    this.table = make("table", { "aria-label": label }, make("thead", {}, this.head), this.body);
    this.box = make("div", { class: "scroll long-table", tabindex: "-1" }, this.table);
    this.empty = make("p", { class: "muted", text: empty });
    container.append(this.box, this.empty);
    this.headers = columns.map((column, index) => this.header(column, index));
    this.redraw = oncePerFrame(() => this.draw());
    this.box.addEventListener("scroll", this.redraw);
    new ResizeObserver(this.redraw).observe(this.box);
  }

  header(column, index) {
    const button = make("button", { type: "button", text: column.title });
    const header = make("th", { scope: "col", class: column.numeric ? "number" : null }, button);
    button.addEventListener("click", () => this.sort(index, this.order.column === index && !this.order.down));
    this.head.append(header);
    return header;
  }

  sort(column, down) {
    this.order = { column, down };
    this.show(this.items);
  }

  /** Show these items. */
  show(items) {
    const { column, down } = this.order;
    const value = this.columns[column].value;
    const compare = (first, second) => (first < second ? -1 : first > second ? 1 : 0);
    this.items = items;
    this.sorted = [...items].sort((first, second) => (down ? -1 : 1) * compare(value(first), value(second)));
    this.headers.forEach((header, index) => {
      const order = index !== column ? "none" : down ? "descending" : "ascending";
      header.setAttribute("aria-sort", order);
      header.firstChild.textContent = this.columns[index].title + { none: "", ascending: " ▲", descending: " ▼" }[order];
    });
    this.table.setAttribute("aria-rowcount", items.length + 1);
    this.empty.hidden = items.length > 0;
    this.redraw();
  }

  /** Mark an item and bring it into sight. */
  choose(item) {
    this.chosen = item;
    const place = item ? this.sorted.indexOf(item) : -1;
    if (place >= 0) {
      const top = place * TABLE_ROW;
      const room = this.box.clientHeight - 2 * TABLE_ROW;
      if (top < this.box.scrollTop || top > this.box.scrollTop + room) this.box.scrollTop = top - room / 2;
    }
    this.redraw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / TABLE_ROW) - AROUND);
    const last = Math.min(this.sorted.length, first + Math.ceil(this.box.clientHeight / TABLE_ROW) + 2 * AROUND);
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    const rows = this.sorted.slice(first, last).map((item, place) => this.row(item, first + place));
    this.body.replaceChildren(spacer(first), ...rows, spacer(this.sorted.length - last));
    // A row that is drawn again keeps the focus of the keyboard.
    if (focused !== null) this.body.querySelector(`[data-place="${focused}"]`)?.focus({ preventScroll: true });
  }

  row(item, place) {
    const row = make("tr", { "aria-rowindex": place + 2, "aria-selected": item === this.chosen ? "true" : null });
    this.columns.forEach((column, index) => {
      const cell = make("td", { class: column.numeric ? "number" : null });
      const content = column.cell(item);
      if (index === 0) cell.append(make("button", { type: "button", class: "jump", "data-place": place, text: content }));
      else cell.append(content);
      row.append(cell);
    });
    row.addEventListener("click", () => this.onChoose(item));
    return row;
  }
}

/** An empty row as high as the rows that are not drawn. */
function spacer(rows) {
  const row = make("tr", { "aria-hidden": "true", class: "spacer" }, make("td"));
  row.firstChild.style.height = `${rows * TABLE_ROW}px`;
  row.hidden = rows === 0;
  return row;
}
