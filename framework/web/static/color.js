// Colors of names and series that have no color of their own.

const hues = [212, 28, 150, 282, 52, 340, 185, 100]; // degrees; neighbors differ much

// hueOfSeries returns the hue of a series of a chart.
export function hueOfSeries(i) {
  return hues[i % hues.length];
}

// listTypeHues returns a hue for each GPU type, by name, the same in all charts of a cluster.
export function listTypeHues(types) {
  return new Map([...types].sort().map((type, i) => [type, hueOfSeries(i)]));
}

// hueOf returns a hue, in degrees, that is always the same for a text.
export function hueOf(text) {
  let hash = 0;
  for (const letter of text) hash = (31 * hash + letter.codePointAt(0)) % 9973;
  return (hash * 137) % 360;
}
