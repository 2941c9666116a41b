/* Scores of a recording: a column of bytes (0 to 255) for each class, with the maxima of 8, 64, 512 … rows beside it,
   so that a screen full of ten hours looks at no more numbers than one of ten seconds. Rows can be added at any time. */
"use strict";

const FACTOR = 8; // rows of one level in a row of the next
const LEVELS = 6; // 8^5 rows in one: a pixel of 16 days at 4 rows a second still looks at few
const FULL_SCORE = 255;
const SLACK = 1e-6; // seconds: sums of hops are not exact

class Scores {
  /** classes: how many. most: rows that are kept, for streams without an end; the oldest quarter goes first. */
  constructor(classes, most = Infinity) {
    this.classes = classes;
    this.most = most;
    this.length = 0;
    this.capacity = 0;
    this.begins = new Float64Array(0); // seconds
    this.ends = new Float64Array(0);
    this.levels = Array.from({ length: LEVELS }, () => Array.from({ length: classes }, () => new Uint8Array(0)));
    this.reserve(256);
  }

  /** From `rows` of the page's data: {hop, runs: [[begin, count], …], packed}, packed class by class. */
  static async unpack(rows, classes) {
    const scores = new Scores(classes);
    const count = rows.runs.reduce((sum, run) => sum + run[1], 0);
    const bytes = count && classes ? await inflated(rows.packed) : new Uint8Array(0);
    scores.reserve(count);
    let row = 0;
    for (const [begin, length] of rows.runs) {
      for (let place = 0; place < length; place++, row++) {
        scores.begins[row] = begin + place * rows.hop;
        scores.ends[row] = begin + (place + 1) * rows.hop;
      }
    }
    for (let index = 0; index < classes; index++) {
      scores.levels[0][index].set(bytes.subarray(index * count, (index + 1) * count));
    }
    scores.length = count;
    scores.rebuild();
    return scores;
  }

  reserve(capacity) {
    if (capacity <= this.capacity) return;
    this.capacity = Math.max(capacity, 2 * this.capacity);
    this.begins = grown(this.begins, this.capacity);
    this.ends = grown(this.ends, this.capacity);
    this.levels.forEach((columns, level) => {
      const size = Math.ceil(this.capacity / FACTOR ** level);
      columns.forEach((column, index) => {
        columns[index] = grown(column, size);
      });
    });
  }

  /** Add a row: seconds, seconds, scores from 0 to 1. Rows that do not begin after the last one are left out. */
  append(begin, end, values) {
    if (this.length && begin < this.begins[this.length - 1]) return;
    if (this.length >= this.most) this.forget(Math.ceil(this.most / 4));
    this.reserve(this.length + 1);
    const row = this.length++;
    this.begins[row] = begin;
    this.ends[row] = end;
    for (let index = 0; index < this.classes; index++) {
      const value = Math.round(FULL_SCORE * Math.min(1, Math.max(0, values[index] || 0)));
      this.levels[0][index][row] = value;
      for (let level = 1, place = row; level < LEVELS; level++) {
        place = Math.floor(place / FACTOR);
        const column = this.levels[level][index];
        if (row % FACTOR ** level === 0 || column[place] < value) column[place] = value;
      }
    }
  }

  /** Drop the oldest rows. */
  forget(rows) {
    const kept = this.length - rows;
    for (const column of [this.begins, this.ends, ...this.levels[0]]) column.copyWithin(0, rows, this.length);
    this.length = kept;
    this.rebuild();
  }

  rebuild() {
    for (let level = 1; level < LEVELS; level++) {
      const below = Math.ceil(this.length / FACTOR ** (level - 1));
      for (let index = 0; index < this.classes; index++) {
        const lower = this.levels[level - 1][index];
        const column = this.levels[level][index];
        for (let place = 0; place * FACTOR < below; place++) {
          let largest = 0;
          const end = Math.min(below, (place + 1) * FACTOR);
          for (let item = place * FACTOR; item < end; item++) if (lower[item] > largest) largest = lower[item];
          column[place] = largest;
        }
      }
    }
  }

  get start() {
    return this.length ? this.begins[0] : 0;
  }

  get end() {
    return this.length ? this.ends[this.length - 1] : 0;
  }

  /** Score of a class in a row, 0 to 1. */
  at(row, index) {
    return this.levels[0][index][row] / FULL_SCORE;
  }

  /** The first row that ends after `time`: it covers that time, or comes after it. */
  rowFrom(time) {
    return firstAbove(this.ends, this.length, time);
  }

  /** The row that covers `time`, or -1. */
  rowAt(time) {
    const row = this.rowFrom(time);
    return row < this.length && this.begins[row] <= time ? row : -1;
  }

  /** The classes of a row from the strongest on: [[index, score], …]. */
  best(row, count) {
    const all = Array.from({ length: this.classes }, (_, index) => [index, this.at(row, index)]);
    return all.sort((first, second) => second[1] - first[1]).slice(0, count);
  }

  /** The largest score of a class anywhere, 0 to 1. */
  peak(index) {
    const top = this.levels[LEVELS - 1][index];
    let largest = 0;
    for (let place = 0; place < Math.ceil(this.length / FACTOR ** (LEVELS - 1)); place++) {
      largest = Math.max(largest, top[place]);
    }
    return largest / FULL_SCORE;
  }

  /**
   * Where the pixels of a picture look: {level, from, to}, both (pixels,) places in that level; from = to: no row.
   * start: seconds at the left edge; step: seconds of a pixel.
   */
  pixels(start, step, count) {
    const from = new Int32Array(count);
    const to = new Int32Array(count);
    let widest = 1;
    for (let pixel = 0; pixel < count; pixel++) {
      const left = start + pixel * step;
      from[pixel] = this.rowFrom(left + SLACK);
      to[pixel] = firstAbove(this.begins, this.length, left + step - SLACK);
      widest = Math.max(widest, to[pixel] - from[pixel]);
    }
    // Blocks no wider than a pixel: their maxima reach over its borders by less than one more pixel.
    const level = Math.min(LEVELS - 1, Math.floor(Math.log(widest) / Math.log(FACTOR) + 1e-9));
    const size = FACTOR ** level;
    for (let pixel = 0; level && pixel < count; pixel++) {
      if (to[pixel] <= from[pixel]) continue;
      from[pixel] = Math.floor(from[pixel] / size);
      to[pixel] = Math.max(from[pixel] + 1, Math.floor(to[pixel] / size));
    }
    return { level, from, to };
  }
}

function grown(column, size) {
  const larger = new column.constructor(size);
  larger.set(column.subarray(0, Math.min(size, column.length)));
  return larger;
}

/** The first of `count` increasing values that is above `limit`. */
function firstAbove(values, count, limit) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
