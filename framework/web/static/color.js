// Colors of names and series that have no color of their own.

const hues = [212, 28, 150, 282, 52, 340, 185, 100]; // degrees; neighbors differ much

// hueOfSeries returns the hue of a series of a chart.
export function hueOfSeries(i) {
  return hues[i % hues.length];
}

// hueOf returns a hue, in degrees, that is always the same for a text.
export function hueOf(text) {
  let hash = 0;
  for (const letter of text) hash = (31 * hash + letter.codePointAt(0)) % 9973;
  return (hash * 137) % 360;
}
