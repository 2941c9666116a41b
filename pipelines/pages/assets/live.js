/* The live page: listens to the server's events, and builds anew what it shows when another stream is served there.
   The other side is pipelines/serving/: hub.py says what the messages hold, feed.py when they come. */
"use strict";

const FIRST_RETRY = 500; // milliseconds; each attempt waits longer
const LONGEST_RETRY = 5000;
const HIDDEN = 20000; // milliseconds after which a page that nobody looks at hangs up

class LivePage {
  constructor(container) {
    this.status = make("span", { class: "live-status", role: "status" });
    this.about = make("span", { class: "about" });
    this.grid = make("div", { class: "live-grid" });
    const tools = make("div", { class: "tools" }, this.status, theme.button());
    container.append(
      make("header", { class: "top" }, make("h1", { text: "cotrans live" }), this.about, tools),
      this.grid,
      make("footer", { text: "Click a timeline to look back, drag with Shift and the wheel or two fingers to move, + and − to zoom." }),
    );
    this.last = ""; // what was heard last
    this.retry = FIRST_RETRY;
    this.over = false;
    this.sources = [];
    this.tracks = [];
    document.addEventListener("visibilitychange", () => this.seen());
    this.connect();
  }

  // ---- the connection

  connect() {
    clearTimeout(this.timer);
    this.events = new EventSource(`events?last=${encodeURIComponent(this.last)}`);
    this.events.addEventListener("hello", (event) => this.hello(JSON.parse(event.data)));
    this.events.addEventListener("message", (event) => {
      this.last = event.lastEventId;
      this.update(JSON.parse(event.data));
    });
    this.events.addEventListener("bye", () => {
      this.over = true;
      this.lost();
    });
    this.events.addEventListener("open", () => {
      this.retry = FIRST_RETRY;
      this.say("live", "Live");
    });
    this.events.addEventListener("error", () => this.lost());
  }

  /** Not left to the browser, which gives up after some answers. */
  lost() {
    this.events.close();
    clearTimeout(this.timer);
    if (document.hidden) return;
    if (this.over) this.ended();
    else this.say("lost", "Connection lost, trying again …");
    this.timer = setTimeout(() => this.check(), this.retry);
    this.retry = Math.min(LONGEST_RETRY, 1.6 * this.retry);
  }

  /** Is anybody there, and may we come in? */
  async check() {
    try {
      const answer = await fetch("./", { method: "HEAD" });
      if (answer.status === 401) {
        this.say("lost", "This page needs a token: open the address that the terminal prints.");
        return;
      }
      this.connect();
    } catch {
      this.lost();
    }
  }

  /** Pages that nobody looks at cost nothing: browsers allow six connections to a host, too. */
  seen() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        clearTimeout(this.timer);
        this.events.close();
      }, HIDDEN);
    } else if (this.events.readyState === EventSource.CLOSED) {
      this.check();
    }
  }

  // ---- messages

  /** What there is to show. */
  hello({ version, step, sources, tracks }) {
    this.over = false;
    const models = new Set(tracks.map((track) => track.model));
    this.about.replaceChildren(...[...models].map((model) => make("span", { name: model })), make("span", { text: `cotrans ${version}` }));
    this.tracks = tracks.map((track) => new LiveTrack(track, models.size > 1));
    this.sources = sources.map((source, place) => {
      const own = this.tracks.filter((_, number) => tracks[number].source === place);
      return new LiveSource(source, place, own, step, (action) => this.ask(place, action));
    });
    this.grid.replaceChildren(...this.sources.map((source) => source.element));
    this.grid.dataset.count = Math.min(this.sources.length, 3);
  }

  update({ rows = {}, sound = {}, pictures = {}, states = {}, numbers, over }) {
    for (const [number, [missing, list]] of Object.entries(rows)) this.tracks[number].append(Boolean(missing), list);
    for (const [place, pairs] of Object.entries(sound)) this.sources[place].hear(pairs);
    for (const [place, jpeg] of Object.entries(pictures)) this.sources[place].showPicture(jpeg);
    for (const [place, state] of Object.entries(states)) this.sources[place].setState(state);
    if (numbers) numbers.forEach((figures, number) => this.tracks[number].showFigures(figures));
    if (over) {
      this.over = true;
      this.ended();
    }
    document.body.dataset.ready = "yes";
  }

  ended() {
    for (const source of this.sources) source.end();
    this.say("over", "The stream has ended");
  }

  /** Pause, resume or stop a source. */
  async ask(place, action) {
    try {
      const answer = await fetch(`sources/${place}/${action}`, { method: "POST" });
      if (!answer.ok) announce(answer.status === 409 ? "This source is over." : `The server refused it (${answer.status}).`);
    } catch {
      announce("The server cannot be reached.");
    }
  }

  say(state, text) {
    if (this.status.textContent === text) return;
    this.status.textContent = text;
    this.status.dataset.state = state;
  }
}

// The token came with the address, and a cookie holds it now: it need not stand where others see it.
if (location.search) history.replaceState(null, "", location.pathname);
const live = new LivePage(document.getElementById("page"));
