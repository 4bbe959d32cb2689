// Which values a task of a matrix has. The API tells the matrix as it was
// written, and a task by its index: this counts as the scheduler does.

// combinations makes a function from a task's index to its values, by name;
// undefined beyond the last.
export function combinations({ axes = [], exclude = [], include = [] }) {
  const crossed = axes.length ? cross(axes).filter((c) => !exclude.some((entry) => agrees(entry, c))) : [];
  const lone = include.filter((entry) => !crossed.some((c) => agrees(pick(entry, axes), c)));
  return (index) => {
    const one = crossed[index];
    if (!one) return lone[index - crossed.length];
    return Object.assign({}, one, ...include.filter((entry) => agrees(pick(entry, axes), one)));
  };
}

// cross is all combinations of the axes' values, the last axis fastest.
function cross(axes) {
  return axes.reduce((all, { name, values }) => all.flatMap((one) => values.map((v) => ({ ...one, [name]: v }))), [{}]);
}

// pick is what an entry says of the axes.
function pick(entry, axes) {
  return Object.fromEntries(axes.filter(({ name }) => name in entry).map(({ name }) => [name, entry[name]]));
}

function agrees(entry, combination) {
  return Object.entries(entry).every(([name, value]) => !(name in combination) || combination[name] === value);
}
