/* Stretches of a recording: out of scores and a threshold, corrected by a person, and as a table for `cotrans train`.
   A segment is {start, end, label, score}: seconds, a class name, the mean score or null where a person set it. */
"use strict";

const SHORTEST_SEGMENT = 0.01; // seconds
const CUT_SHARE = 0.5; // of the least length: enough for a segment that the recording's end cuts off

/**
 * Merge rows with the same label, as `cotrans stream --segments --threshold T` does. Where one label is there at a time, a
 * segment goes on over others that are left out for being too short.
 * recording: {classes, hidden (set of class numbers), kind ("softmax": one label at a time, or "sigmoid"), least (seconds)}.
 */
function segmentsAt(scores, recording, threshold) {
  const limit = threshold * FULL_SCORE;
  const columns = scores.levels[0];
  const tracks = new Map(); // class -> the segment that is still growing
  const single = recording.kind === "softmax";
  const long = []; // tracks that are over
  let held = null; // {index, track, reach}: the last of them, and where the short ones after it end
  const close = (index, share = 1) => {
    const track = tracks.get(index);
    tracks.delete(index);
    if (track.end > 0 && track.end - track.start >= share * recording.least - SLACK) {
      if (long.at(-1) !== track) long.push(track);
      held = { index, track, reach: track.end };
    } else if (held) {
      held.reach = track.end;
    }
  };
  const begin = (index, row) => {
    if (single && held && held.index === index) return held.track;
    return { index, start: Math.max(0, scores.begins[row]), total: 0, rows: 0 };
  };
  const present = new Set();
  for (let row = 0; row < scores.length; row++) {
    present.clear();
    if (single) {
      let best = 0;
      for (let index = 1; index < columns.length; index++) if (columns[index][row] > columns[best][row]) best = index;
      if (columns.length && columns[best][row] >= limit) present.add(best);
    } else {
      for (let index = 0; index < columns.length; index++) if (columns[index][row] >= limit) present.add(index);
    }
    const hop = scores.ends[row] - scores.begins[row];
    for (const [index, track] of tracks) {
      if (!present.has(index) || scores.begins[row] - track.end > 0.5 * hop) close(index);
    }
    // A segment that is growing leads on from the held one; a gap does not.
    if (!tracks.size && held && scores.begins[row] - held.reach > 0.5 * hop) held = null;
    for (const index of present) {
      if (recording.hidden.has(index)) continue;
      const track = tracks.get(index) || begin(index, row);
      track.end = scores.ends[row];
      track.total += columns[index][row];
      track.rows += 1;
      tracks.set(index, track);
    }
  }
  for (const index of [...tracks.keys()]) close(index, CUT_SHARE);
  const closed = long.map(({ index, start, end, total, rows }) => {
    return { start, end, label: recording.classes[index], score: total / rows / FULL_SCORE };
  });
  return closed.sort((first, second) => first.start - second.start || first.end - second.end);
}

/** Segments in order of time that a person may change, with undo and redo. Listeners hear of every change. */
class SegmentList {
  /** single: one label at a time, so that segments never overlap. end: seconds at which the recording ends. */
  constructor(items, { single, end }) {
    this.items = items;
    this.single = single;
    this.end = end;
    this.edited = false;
    this.past = [];
    this.future = [];
    this.listeners = [];
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  /** Other predictions (a threshold was moved): corrections and their history are gone. */
  reset(items) {
    Object.assign(this, { items, edited: false, past: [], future: [] });
    this.tell();
  }

  /** Change segment `index`; returns where it stands afterwards. `part` of {start, end, label}. */
  change(index, part) {
    const before = this.items[index];
    const after = this.fitted({ ...before, ...part, score: null }, index, part);
    if (after.start === before.start && after.end === before.end && after.label === before.label) return index;
    return this.store(this.items.map((item, place) => (place === index ? after : item)), after);
  }

  /** A new segment; null where another one leaves no room for it. */
  add(start, end, label) {
    const segment = { start: Math.max(0, start), end: Math.min(this.end, end), label, score: null };
    if (this.single) {
      const inside = this.items.find((item) => item.start <= segment.start && segment.start < item.end);
      if (inside && segment.start < inside.end - SHORTEST_SEGMENT) return null;
      if (inside) segment.start = inside.end;
      const next = this.items.find((item) => item.start >= segment.start);
      if (next) segment.end = Math.min(segment.end, next.start);
    }
    if (segment.end - segment.start < SHORTEST_SEGMENT) return null;
    return this.store([...this.items, segment], segment);
  }

  remove(index) {
    this.store(this.items.filter((_, place) => place !== index), null);
  }

  undo() {
    this.step(this.past, this.future);
  }

  redo() {
    this.step(this.future, this.past);
  }

  step(from, to) {
    if (!from.length) return;
    to.push({ items: this.items, edited: this.edited });
    Object.assign(this, from.pop());
    this.tell();
  }

  store(items, followed) {
    this.past.push({ items: this.items, edited: this.edited });
    this.future = [];
    this.items = [...items].sort((first, second) => first.start - second.start || first.end - second.end);
    this.edited = true;
    this.tell();
    return followed ? this.items.indexOf(followed) : -1;
  }

  /** A segment within the recording and, where labels exclude each other, between its neighbours. */
  fitted(segment, index, part) {
    let least = 0;
    let most = this.end;
    if (this.single) {
      if (index > 0) least = this.items[index - 1].end;
      if (index + 1 < this.items.length) most = this.items[index + 1].start;
    }
    segment.start = Math.min(Math.max(least, segment.start), most);
    segment.end = Math.max(Math.min(most, segment.end), least);
    if (segment.end - segment.start < SHORTEST_SEGMENT) {
      if ("start" in part) segment.start = Math.max(least, segment.end - SHORTEST_SEGMENT);
      else segment.end = Math.min(most, segment.start + SHORTEST_SEGMENT);
    }
    return segment;
  }

  tell() {
    for (const listener of this.listeners) listener(this);
  }
}

/** The table that `cotrans train` reads: file,start,end,label. parts: [{file, items}]; no segments are a line too. */
function segmentsCsv(parts) {
  const lines = parts.flatMap(({ file, items }) =>
    items.length ? items.map((item) => [file, seconds(item.start), seconds(item.end), item.label]) : [[file, "", "", ""]],
  );
  return [["file", "start", "end", "label"], ...lines].map((cells) => cells.map(csvCell).join(",")).join("\n") + "\n";
}

function seconds(value) {
  return String(Math.round(value * 1000) / 1000);
}

function csvCell(value) {
  return /[",;\t\r\n\v\f]|^\s|\s$/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

const MOST_LAYERS = 4;
const stacks = new WeakMap(); // by list of segments: it is asked for in every frame

/** Rows of a lane for segments that overlap: {layers: (segments,) numbers, count}; at most four rows. */
function stacked(segments) {
  if (!stacks.has(segments)) stacks.set(segments, newStack(segments));
  return stacks.get(segments);
}

function newStack(segments) {
  const ends = [];
  const layers = segments.map((segment) => {
    let layer = ends.findIndex((end) => end <= segment.start + 1e-6);
    if (layer < 0) layer = Math.min(ends.length, MOST_LAYERS - 1);
    ends[layer] = Math.max(ends[layer] || 0, segment.end);
    return layer;
  });
  return { layers, count: Math.max(1, ends.length) };
}
