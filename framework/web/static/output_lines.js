// The last lines of a task's output.

const maxCharacters = 512 << 10; // of all lines together
const maxLines = 5000;

// OutputLines has the lines in the order in which they began. Both streams are whole lines, though a
// task may write to one of them in the middle of a line of the other.
export class OutputLines {
  lines = []; // { stream, time, text }
  stored = undefined; // describes output that was stored when the task ended
  #incomplete = {}; // the line of each stream that has no end yet
  #characters = 0;

  // add adds parts of the API's answer. It returns the lines that are new or longer, and those
  // that were removed because there are too many.
  add(parts) {
    const changed = new Set();
    for (const part of parts) {
      this.stored = part.stored ?? this.stored;
      for (const piece of textOfPart(part).split(/(?<=\n)/)) {
        if (piece) changed.add(this.#extend(part, piece));
      }
    }
    return { changed, removed: this.#trim() };
  }

  #extend({ stream, time }, piece) {
    let line = this.#incomplete[stream];
    if (!line) this.lines.push(line = this.#incomplete[stream] = { stream, time, text: '' });
    this.#characters -= line.text.length;
    line.text = overwrite(line.text + piece);
    this.#characters += line.text.length;
    if (piece.endsWith('\n')) this.#incomplete[stream] = undefined;
    return line;
  }

  #trim() {
    const removed = [];
    while (this.lines.length > 1 && (this.lines.length > maxLines || this.#characters > maxCharacters)) {
      const line = this.lines.shift();
      this.#characters -= line.text.length;
      removed.push(line);
    }
    return removed;
  }
}

// overwrite returns what a terminal shows of a line: a carriage return starts it again, as progress
// bars do.
function overwrite(text) {
  const line = text.replace('\r\n', '\n');
  return line.slice(line.lastIndexOf('\r', line.length - 2) + 1);
}

// textOfPart returns the text of a part, with replacement characters for what is not UTF-8.
export function textOfPart({ text = '', data }) {
  return data ? new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0))) : text;
}
