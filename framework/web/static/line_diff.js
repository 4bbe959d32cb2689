// The differences between two texts, line by line.
import { createElement, syncChildren } from './dom.js';

const contextLines = 3; // equal lines that are shown around a difference

// diffLines returns the lines of both texts in order, each with the sign '-' if only the first
// text has it, '+' if only the second has it, and ' ' if both have it.
export function diffLines(first, second) {
  const [a, b] = [first, second].map((text) => text.replace(/\n$/, '').split('\n'));
  const lengths = commonLengths(a, b);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ sign: ' ', text: a[i] });
      i++;
      j++;
    } else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      lines.push({ sign: '-', text: a[i++] });
    } else {
      lines.push({ sign: '+', text: b[j++] });
    }
  }
  return lines;
}

// commonLengths returns for each pair of positions how many lines the rests have in common.
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

// createDiff creates a region with the differences between two texts. update returns whether
// there are any.
export function createDiff(label) {
  const node = createElement('pre', { class: 'diff', tabindex: 0, role: 'region', 'aria-label': label, hidden: true });
  const update = (first, second) => {
    const lines = diffLines(first, second);
    const isNear = lines.map((_, at) => lines.slice(Math.max(0, at - contextLines), at + contextLines + 1).some(({ sign }) => sign !== ' '));
    const shown = lines.filter((_, at) => isNear[at]).map((line, key) => ({ ...line, key }));
    node.hidden = shown.length === 0;
    syncChildren(node, shown, ({ key, sign, text }) => `${key} ${sign} ${text}`, ({ sign, text }) => createElement(elements[sign], {}, `${sign} ${text}\n`), () => {});
    return shown.length > 0;
  };
  return { node, update };
}

const elements = { '+': 'ins', '-': 'del', ' ': 'span' };
