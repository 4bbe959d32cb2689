// Computes the matrix values of a task. The API returns the matrix as written,
// and tasks by index; the order of combinations is that of the scheduler.

// combinations returns a function from a task's index to its values by name;
// it returns undefined after the last combination.
export function combinations({ axes = [], exclude = [], include = [] }) {
  const crossed = axes.length ? cross(axes).filter((c) => !exclude.some((entry) => agrees(entry, c))) : [];
  const lone = include.filter((entry) => !crossed.some((c) => agrees(pick(entry, axes), c)));
  return (index) => {
    const one = crossed[index];
    if (!one) return lone[index - crossed.length];
    return Object.assign({}, one, ...include.filter((entry) => agrees(pick(entry, axes), one)));
  };
}

// cross returns all combinations of the axes' values; the last axis varies fastest.
function cross(axes) {
  return axes.reduce((all, { name, values }) => all.flatMap((one) => values.map((v) => ({ ...one, [name]: v }))), [{}]);
}

// pick returns an entry's values for the axes.
function pick(entry, axes) {
  return Object.fromEntries(axes.filter(({ name }) => name in entry).map(({ name }) => [name, entry[name]]));
}

function agrees(entry, combination) {
  return Object.entries(entry).every(([name, value]) => !(name in combination) || combination[name] === value);
}
