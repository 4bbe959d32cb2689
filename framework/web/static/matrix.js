// Computes the matrix values of a task. The API returns the matrix as written,
// and tasks by index; the order of combinations is that of the scheduler.

// listCombinations returns a function from a task's index to its values by name;
// it returns undefined after the last combination.
export function listCombinations({ axes = [], exclude = [], include = [] }) {
  const crossed = axes.length ? combineAxes(axes).filter((c) => !exclude.some((entry) => matchesEntry(entry, c))) : [];
  const lone = include.filter((entry) => !crossed.some((c) => matchesEntry(pickAxes(entry, axes), c)));
  return (index) => {
    const one = crossed[index];
    if (!one) return lone[index - crossed.length];
    return Object.assign({}, one, ...include.filter((entry) => matchesEntry(pickAxes(entry, axes), one)));
  };
}

// combineAxes returns all combinations of the axes' values; the last axis varies fastest.
function combineAxes(axes) {
  return axes.reduce((all, { name, values }) => all.flatMap((one) => values.map((v) => ({ ...one, [name]: v }))), [{}]);
}

// pickAxes returns an entry's values for the axes.
function pickAxes(entry, axes) {
  return Object.fromEntries(axes.filter(({ name }) => name in entry).map(({ name }) => [name, entry[name]]));
}

function matchesEntry(entry, combination) {
  return Object.entries(entry).every(([name, value]) => !(name in combination) || combination[name] === value);
}
