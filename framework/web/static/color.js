// Colors of names that have no color of their own.

// hueOf returns a hue, in degrees, that is always the same for a text.
export function hueOf(text) {
  let hash = 0;
  for (const letter of text) hash = (31 * hash + letter.codePointAt(0)) % 9973;
  return (hash * 137) % 360;
}
