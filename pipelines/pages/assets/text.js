/* Text and elements: every name of a class or file reaches the page through here, as text and never as markup. */
"use strict";

const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Control characters in writing (ESC is \x1b, a line end \n), so that a strange name shows instead of acting. */
function visible(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (letter) => {
    const code = letter.charCodeAt(0).toString(16);
    return ESCAPES[letter] || (code.length > 2 ? `\\u${code}` : `\\x${code.padStart(2, "0")}`);
  });
}

/** The same for a canvas, where no style isolates right-to-left text from what stands around it. */
function isolated(text) {
  return `\u2068${visible(text)}\u2069`;
}

/**
 * An element. `text` becomes its only text; `name` is text of unknown direction (a class, a file); every other key is
 * an attribute. Children may be elements or nothing.
 */
function make(tag, { text, name, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name !== undefined) showName(element, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter(Boolean));
  return element;
}

/** Put a name of unknown direction and content into an element. */
function showName(element, name) {
  element.textContent = visible(name);
  element.dir = "auto";
  element.classList.add("name");
}

/** 83.25 as 1:23.25; hours only where there are some. `digits` after the point. */
function clock(seconds, digits = 2) {
  const scale = 10 ** digits;
  const rounded = Math.round(Math.max(0, seconds) * scale) / scale;
  const hours = Math.floor(rounded / 3600);
  const minutes = Math.floor(rounded / 60) % 60;
  const rest = (rounded % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

function percent(share, digits = 0) {
  return `${(100 * share).toFixed(digits)} %`;
}

/** 1234567 as 1.23 M. */
function short(number) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (Math.abs(number) >= size) return (number / size).toPrecision(3) + unit;
  }
  return String(Math.round(number * 100) / 100);
}

/** A call that waits for the next picture; many requests in between are one. */
function oncePerFrame(action) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
}

/** Say something to screen readers and, for a moment, at the foot of the page. */
function announce(message) {
  let place = document.getElementById("announcer");
  if (!place) {
    place = make("div", { id: "announcer", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  place.textContent = message;
  place.classList.add("shown");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => place.classList.remove("shown"), 4000);
}
