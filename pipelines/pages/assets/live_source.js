/* A live source: its name and state, picture, what each model says of it, and the buttons that pause and stop it. */
"use strict";

const STATES = {
  waiting: "waiting",
  playing: "playing",
  paused: "paused",
  stopping: "stopping …",
  stopped: "stopped",
  ended: "ended",
  failed: "failed: the terminal says why",
};
const OVER = ["stopped", "ended", "failed"];
const SURE = 4000; // milliseconds in which a second click stops the source

class LiveSource {
  /** description: {name} of the server; place: its number; step: seconds of a peak; ask(action): tells the server. */
  constructor(description, place, tracks, step, ask) {
    this.tracks = tracks;
    this.ask = ask;
    this.sound = new LiveSound(step);
    this.heading = make("h2", { name: description.name, id: `source-${place}` });
    this.chip = make("span", { class: "live-state" });
    this.pause = make("button", { type: "button", "aria-describedby": this.heading.id });
    this.pause.addEventListener("click", () => ask(this.state === "paused" ? "resume" : "pause"));
    this.stop = make("button", { type: "button", class: "quiet", "aria-describedby": this.heading.id });
    this.stop.addEventListener("click", () => this.stopOnSecondClick());
    this.picture = make("img", { alt: "", class: "live-picture", hidden: true });
    this.picture.alt = `What ${visible(description.name)} shows`;
    this.element = make(
      "article",
      { class: "card live-source", "aria-labelledby": this.heading.id },
      make("header", {}, this.heading, this.chip, make("div", { class: "tools" }, this.pause, this.stop)),
      this.picture,
      ...tracks.map((track) => track.element),
    );
    this.unsure();
    this.setState("waiting");
  }

  setState(state) {
    this.state = state;
    this.chip.textContent = STATES[state] || state;
    this.chip.dataset.state = state;
    this.element.dataset.state = state;
    const done = OVER.includes(state) || state === "stopping";
    this.pause.disabled = this.stop.disabled = done;
    this.pause.textContent = state === "paused" ? "▶ Resume" : "❚❚ Pause";
  }

  /** The whole stream is over: what has not ended by itself was stopped with it. */
  end() {
    if (!OVER.includes(this.state)) this.setState("stopped");
  }

  /** What cannot be taken back is asked for twice. */
  stopOnSecondClick() {
    if (this.stop.dataset.sure) {
      this.unsure();
      this.ask("stop");
      return;
    }
    this.stop.dataset.sure = "yes";
    this.stop.textContent = "Really stop?";
    this.timer = setTimeout(() => this.unsure(), SURE);
  }

  unsure() {
    clearTimeout(this.timer);
    delete this.stop.dataset.sure;
    this.stop.textContent = "■ Stop";
  }

  /** jpeg: base64. */
  showPicture(jpeg) {
    this.picture.src = `data:image/jpeg;base64,${jpeg}`;
    this.picture.hidden = false;
  }

  hear(pairs) {
    this.sound.append(pairs);
    const { timeline } = this.tracks[0];
    const strip = this.sound.strip();
    if (!timeline.strip) {
      timeline.setStrip(strip);
    } else {
      timeline.strip = strip; // the layout stays
      timeline.redraw();
    }
  }
}
