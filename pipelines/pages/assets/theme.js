/* Dark and light, and the colours of classes: by the system's wish until the reader chooses. */
"use strict";

/* Okabe and Ito's palette, which people with every kind of colour blindness can tell apart, with the colours that
   vanish on one of the two backgrounds made darker or lighter. Where there are more classes than colours they begin
   again: lanes have names, so no meaning hangs on the colour alone. */
const CLASS_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0588b", "#b87a00", "#2f8fc4", "#7a6c00"],
  dark: ["#56b4e9", "#e69f00", "#2bc294", "#e39ac4", "#f0e442", "#ff8f52", "#8fb3ff"],
};
const THEME_KEY = "cotrans-theme";

const theme = {
  listeners: [],
  system: matchMedia("(prefers-color-scheme: dark)"),
  chosen: null, // "dark", "light", or null: as the system says
  current: "light", // what holds
  colours: new Map(), // of the style sheet, as far as they were asked for

  /** The colour of class number `index` on the current background, as #rrggbb. */
  classColour(index) {
    const colours = CLASS_COLOURS[theme.current];
    return colours[index % colours.length];
  },

  /** A colour of the style sheet: `theme.colour("line")` is the value of --line. */
  colour(name) {
    if (!theme.colours.has(name)) {
      theme.colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    }
    return theme.colours.get(name);
  },

  onChange(listener) {
    theme.listeners.push(listener);
  },

  choose(name) {
    theme.chosen = name;
    try {
      localStorage.setItem(THEME_KEY, name);
    } catch {
      // A page from a file may have no storage: the choice holds until it is closed.
    }
    theme.apply();
  },

  apply() {
    theme.current = theme.chosen || (theme.system.matches ? "dark" : "light");
    theme.colours.clear();
    document.documentElement.dataset.theme = theme.current;
    for (const listener of theme.listeners) listener(theme.current);
  },

  /** The button that changes it. */
  button() {
    const button = make("button", { type: "button", class: "quiet", id: "theme" });
    const label = () => {
      const other = theme.current === "dark" ? "light" : "dark";
      button.textContent = theme.current === "dark" ? "☀ Light" : "☾ Dark";
      button.setAttribute("aria-label", `Change to the ${other} theme`);
    };
    button.addEventListener("click", () => theme.choose(theme.current === "dark" ? "light" : "dark"));
    theme.onChange(label);
    label();
    return button;
  },

  begin() {
    try {
      const chosen = localStorage.getItem(THEME_KEY);
      if (chosen === "dark" || chosen === "light") theme.chosen = chosen;
    } catch {
      // No storage: as the system says.
    }
    theme.system.addEventListener("change", theme.apply);
    theme.apply();
  },
};

/** "#0072b2" as [0, 114, 178]. */
function rgb(colour) {
  const digits = colour.length === 4 ? [...colour.slice(1)].map((digit) => digit + digit).join("") : colour.slice(1, 7);
  return [0, 2, 4].map((place) => parseInt(digits.slice(place, place + 2), 16));
}

/** How bright a colour looks, from 0 to 1: the relative luminance that contrast is reckoned with. */
function brightness(colour) {
  const [red, green, blue] = rgb(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

theme.begin();
