/* The recording itself: the browser's own player, or words about why there is none. */
"use strict";

class Player {
  /** media: {kind: "audio" | "video", href or block (id of the element with base64), mime, name}, or null. */
  constructor(container, media) {
    this.listeners = [];
    this.element = null;
    this.note = make("p", { class: "note", role: "note", hidden: true });
    container.replaceChildren(this.note);
    if (!media) {
      this.explain("There is no recording to play: the stream was live, or it was made of feature files.");
      return;
    }
    this.element = make(media.kind, { controls: true, preload: "metadata", "aria-label": `Player of ${visible(media.name)}` });
    this.element.addEventListener("error", () => this.refused(media));
    if (media.kind === "video") this.element.playsInline = true;
    this.element.src = media.block ? this.address(media) : media.href;
    container.prepend(this.element);
    for (const event of ["timeupdate", "seeking", "seeked", "pause"]) this.element.addEventListener(event, () => this.tell());
    this.element.addEventListener("play", () => this.follow());
  }

  address({ block, mime }) {
    this.made = URL.createObjectURL(new Blob([bytesOf(document.getElementById(block).textContent)], { type: mime }));
    return this.made;
  }

  refused(media) {
    const missing = media.block ? "" : ", or the file is no longer where it was when the report was made";
    this.explain(
      `This browser cannot play ${visible(media.name)} (${media.format})${missing}. Everything else on this page works ` +
        "without it; browsers play mp4, webm, ogg, mp3, wav and flac.",
    );
    this.element.hidden = true;
  }

  explain(text) {
    this.note.textContent = text;
    this.note.hidden = false;
  }

  get playable() {
    return Boolean(this.element) && !this.element.error;
  }

  get time() {
    return this.element ? this.element.currentTime : 0;
  }

  onTime(listener) {
    this.listeners.push(listener);
  }

  tell() {
    for (const listener of this.listeners) listener(this.time);
  }

  /** While it plays, every picture of the screen. */
  follow() {
    if (!this.element || this.element.paused || this.element.ended) return;
    this.tell();
    requestAnimationFrame(() => this.follow());
  }

  seek(seconds) {
    if (this.playable) this.element.currentTime = seconds;
  }

  toggle() {
    if (!this.playable) return;
    if (this.element.paused) this.element.play().catch(() => {});
    else this.element.pause();
  }

  close() {
    if (this.element) this.element.pause();
    if (this.made) URL.revokeObjectURL(this.made);
  }
}
