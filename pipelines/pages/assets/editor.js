/* Corrections: the chosen segment as a form, a button for each thing that can be done to it, and the file that comes out. */
"use strict";

class Editor {
  /**
   * list: a SegmentList. classes: names to choose from. cursor: () => seconds. table: () => the CSV to save.
   * onSelect: called with the number of a segment that is to be shown as the chosen one.
   */
  constructor(container, { list, classes, cursor, table, onSelect }) {
    Object.assign(this, { list, classes, cursor, table, onSelect, selected: -1 });
    this.start = make("input", { type: "number", step: "0.01", min: "0", id: "segment-start" });
    this.end = make("input", { type: "number", step: "0.01", min: "0", id: "segment-end" });
    this.label = make("input", { type: "text", list: "segment-labels", id: "segment-label", dir: "auto", autocomplete: "off" });
    const labels = make("datalist", { id: "segment-labels" }, ...classes.map((name) => make("option", { value: name })));
    this.form = make(
      "div",
      { class: "segment-form", role: "group", "aria-label": "The chosen segment" },
      field("Label", this.label, "wide"),
      field("Start (s)", this.start),
      field("End (s)", this.end),
      labels,
    );
    this.buttons = {
      add: make("button", { type: "button", text: "Add", title: "A new segment at the cursor (A)" }),
      remove: make("button", { type: "button", text: "Delete", title: "Delete the chosen segment (Delete)" }),
      undo: make("button", { type: "button", text: "Undo", title: "Ctrl+Z" }),
      redo: make("button", { type: "button", text: "Redo", title: "Ctrl+Shift+Z" }),
      save: make("button", { type: "button", class: "main", text: "Save CSV", title: "A table that `cotrans train` reads" }),
    };
    this.hint = make("p", { class: "muted small" });
    container.replaceChildren(this.form, make("div", { class: "tools" }, ...Object.values(this.buttons)), this.hint);
    this.connect();
    this.show(-1);
  }

  connect() {
    const { list, buttons } = this;
    const changed = (input, part) => input.addEventListener("change", () => this.change(part()));
    changed(this.start, () => ({ start: Number(this.start.value) }));
    changed(this.end, () => ({ end: Number(this.end.value) }));
    changed(this.label, () => ({ label: this.label.value.trim() }));
    buttons.add.addEventListener("click", () => this.add(this.cursor(), this.cursor() + 1));
    buttons.remove.addEventListener("click", () => this.remove());
    buttons.undo.addEventListener("click", () => list.undo());
    buttons.redo.addEventListener("click", () => list.redo());
    buttons.save.addEventListener("click", () => this.save());
    list.onChange(() => this.show(Math.min(this.selected, list.items.length - 1)));
  }

  /** Show segment `index` in the form; -1: none. */
  show(index) {
    const { list, buttons } = this;
    this.selected = index;
    const segment = list.items[index];
    for (const input of [this.start, this.end, this.label, buttons.remove]) input.disabled = !segment;
    this.start.value = segment ? seconds(segment.start) : "";
    this.end.value = segment ? seconds(segment.end) : "";
    this.label.value = segment ? segment.label : "";
    buttons.undo.disabled = !list.past.length;
    buttons.redo.disabled = !list.future.length;
    this.hint.textContent = segment
      ? "Drag a border of the segment in the timeline, or change the numbers."
      : "Choose a segment in the table or the timeline, or draw a new one on an empty place of its lane.";
  }

  change(part) {
    if (this.selected < 0) return;
    const bad = "label" in part ? !part.label : !Number.isFinite(Object.values(part)[0]);
    if (bad) this.show(this.selected);
    else this.choose(this.list.change(this.selected, part));
  }

  /** A new segment, labelled as the one that was chosen or as the first class. */
  add(start, end) {
    const chosen = this.list.items[this.selected];
    const index = this.list.add(start, end, chosen ? chosen.label : this.classes[0] || "event");
    if (index === null) {
      announce("There is a segment already: choose an empty place, or move its border first.");
      return;
    }
    this.choose(index);
    this.label.focus();
    this.label.select();
  }

  remove() {
    if (this.selected < 0) return;
    const index = this.selected;
    this.list.remove(index);
    this.choose(Math.min(index, this.list.items.length - 1));
    announce("Deleted; Undo brings it back.");
  }

  choose(index) {
    this.show(index);
    this.onSelect(index);
  }

  /** Keys of the timeline that are about segments; true: it was one. */
  key(event) {
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (command && key === "z") event.shiftKey ? this.list.redo() : this.list.undo();
    else if (command) return false;
    else if (key === "a") this.add(this.cursor(), this.cursor() + 1);
    else if (key === "delete" || key === "backspace") this.remove();
    else if (key === "[") this.change({ start: this.cursor() });
    else if (key === "]") this.change({ end: this.cursor() });
    else if (key === "n" || key === "p") this.step(key === "n" ? 1 : -1);
    else return false;
    return true;
  }

  step(by) {
    const count = this.list.items.length;
    if (count) this.choose((Math.max(this.selected, by > 0 ? -1 : 0) + by + count) % count);
  }

  save() {
    const address = URL.createObjectURL(new Blob([this.table()], { type: "text/csv" }));
    const link = make("a", { href: address, download: "labels.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
    announce("Saved labels.csv: put it beside the recording, and `cotrans train FOLDER` reads it.");
  }
}

/** An input under its name. */
function field(title, input, style = null) {
  return make("label", { class: style }, make("span", { text: title }), input);
}
