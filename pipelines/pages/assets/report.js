/* The report of `cotrans stream --report` and `cotrans report`: one recording at a time, chosen at the top. */
"use strict";

class Report {
  constructor(root, data) {
    this.data = data;
    this.lists = []; // of corrected segments, by recording
    const select = make("select", { id: "recording", "aria-label": "Recording" });
    data.recordings.forEach((recording, index) => {
      select.append(make("option", { value: index, name: recordingTitle(recording) }));
    });
    select.addEventListener("change", () => this.open(Number(select.value)));
    this.title = make("h1");
    this.about = make("div", { class: "about" });
    this.body = make("div", { class: "report-body" });
    const tools = make("div", { class: "tools" }, data.recordings.length > 1 ? select : null, theme.button());
    root.append(make("header", { class: "top" }, this.title, this.about, tools), this.body, pageFooter(data));
    this.open(0);
  }

  async open(index) {
    const recording = { ...this.data.recordings[index] };
    recording.hidden = new Set(recording.hidden);
    if (this.view) this.view.close();
    showName(this.title, recording.name);
    showName(this.about, recording.model || "");
    try {
      const scores = await Scores.unpack(recording.rows, recording.classes.length);
      this.lists[index] ||= segmentList(recording, scores.end);
      this.view = new RecordingView(this.body, recording, scores, this.lists[index], () => this.table(recording.model));
    } catch (error) {
      this.body.replaceChildren(make("p", { class: "note", text: error.message }));
    }
    document.body.dataset.ready = index; // for whoever waits: tests, and pictures of the page
  }

  /** The segments of all recordings, as one model and whoever corrected it see them. */
  table(model) {
    const parts = this.data.recordings.map((recording, index) => ({
      file: recording.file,
      model: recording.model,
      items: this.lists[index] ? this.lists[index].items : ownSegments(recording),
    }));
    return segmentsCsv(parts.filter((part) => part.model === model));
  }
}

function recordingTitle(recording) {
  return recording.model ? `${recording.name} · ${recording.model}` : recording.name;
}

function pageFooter(data) {
  return make("footer", { text: data.made });
}

window.report = new Report(document.getElementById("page"), pageData());
