/* The sound of a live source: peaks of short stretches as they come, for the strip of its timeline. */
"use strict";

const QUIETEST = 20; // thousandths: the loudest peak that is drawn at its own height, so that noise is not blown up
const MOST_PEAKS = 72000; // an hour
const FADING = 0.9995; // of the loudest peak with each new one: a shout does not flatten the sound for ever

class LiveSound {
  /** step: seconds of one peak. */
  constructor(step) {
    this.step = step;
    this.first = null; // number of the first stretch that is kept
    this.length = 0;
    this.values = new Uint16Array(1024); // thousandths
    this.loudest = QUIETEST;
  }

  /** pairs: [stretch, peak, …] in order of time. */
  append(pairs) {
    for (let place = 0; place < pairs.length; place += 2) this.put(pairs[place], pairs[place + 1]);
  }

  put(stretch, peak) {
    if (this.first === null) this.first = stretch;
    let index = stretch - this.first;
    if (index < 0) return;
    if (index >= this.length + MOST_PEAKS) {
      // So much is missing that nothing before it is in sight: begin again.
      this.values.fill(0);
      [this.first, this.length, index] = [stretch, 0, 0];
    }
    if (index >= MOST_PEAKS) {
      const gone = Math.min(this.length, index - MOST_PEAKS + MOST_PEAKS / 4);
      this.values.copyWithin(0, gone, this.length);
      this.values.fill(0, this.length - gone, this.length);
      this.first += gone;
      this.length -= gone;
      index -= gone;
    }
    if (index >= this.values.length) this.values = grown(this.values, Math.max(index + 1, 2 * this.values.length));
    this.values[index] = peak;
    this.length = Math.max(this.length, index + 1);
    this.loudest = Math.max(QUIETEST, peak, this.loudest * FADING);
  }

  /** As a timeline takes it. */
  strip() {
    const peaks = Uint8Array.from(this.values.subarray(0, this.length), (value) => Math.min(255, (255 * value) / this.loudest));
    return { kind: "waveform", peaks, step: this.step, start: (this.first || 0) * this.step };
  }
}
