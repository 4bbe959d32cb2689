// Computes the matrix values of a task. The API returns the matrix as written,
// and tasks by index; the order of combinations is that of the scheduler.

// listCombinations returns a function from a task's index to its values by name;
// it returns undefined after the last combination.
export function listCombinations({ axes = [], exclude = [], include = [] }) {
  const crossed = axes.length ? combineAxes(axes).filter((combination) => !exclude.some((entry) => matchesEntry(entry, combination))) : [];
  const added = include.filter((entry) => !crossed.some((combination) => matchesEntry(pickAxes(entry, axes), combination)));
  return (index) => {
    const combination = crossed[index];
    if (!combination) return added[index - crossed.length];
    return Object.assign({}, combination, ...include.filter((entry) => matchesEntry(pickAxes(entry, axes), combination)));
  };
}

// combineAxes returns all combinations of the axes' values; the last axis varies fastest.
function combineAxes(axes) {
  return axes.reduce((all, { name, values }) => all.flatMap((combination) => values.map((value) => ({ ...combination, [name]: value }))), [{}]);
}

// pickAxes returns an entry's values for the axes.
function pickAxes(entry, axes) {
  return Object.fromEntries(axes.filter(({ name }) => name in entry).map(({ name }) => [name, entry[name]]));
}

function matchesEntry(entry, combination) {
  return Object.entries(entry).every(([name, value]) => !(name in combination) || combination[name] === value);
}
