// Writes the fields of the submission form as a job file in YAML.

// writeJobFile returns a job file with the fields that are not empty.
export function writeJobFile(fields) {
  const lines = [];
  const put = (key, value) => { if (value !== '' && value !== undefined && value !== false) lines.push(`${key}: ${value === true ? 'true' : quoteText(value)}`); };
  put('name', fields.name);
  put('image', fields.image);
  if (fields.command) lines.push(...blockText('command', fields.command));
  put('gpus', fields.gpus);
  put('gpu_type', fields.gpu_type);
  put('cpus', fields.cpus);
  put('mem', fields.mem);
  put('tasks', fields.tasks);
  put('role', fields.role);
  put('priority', fields.priority);
  put('timeout', fields.timeout);
  put('gang', fields.gang);
  put('preemptible', fields.preemptible);
  lines.push(...pairLines('env', fields.env), ...pairLines('labels', fields.labels));
  if (fields.cron) lines.push('schedule:', `  cron: ${quoteText(fields.cron)}`, ...(fields.time_zone ? [`  time_zone: ${quoteText(fields.time_zone)}`] : []));
  return `${lines.join('\n')}\n`;
}

// quoteText writes plain words and numbers as they are and everything else as JSON, which is
// valid YAML.
function quoteText(value) {
  const text = String(value);
  const plain = /^[A-Za-z0-9][A-Za-z0-9._/:-]*$/.test(text) && !text.endsWith(':') && !/^(true|false|yes|no|on|off|null|y|n)$/i.test(text);
  return plain ? text : JSON.stringify(text);
}

// blockText writes several lines as a literal block.
function blockText(key, text) {
  const lines = text.replace(/\s+$/, '').split('\n');
  if (lines.length === 1 || lines.some((line) => /^\s|\t/.test(lines[0]) || line.includes('\r'))) return [`${key}: ${quoteText(text.trimEnd())}`];
  return [`${key}: |`, ...lines.map((line) => (line === '' ? '' : `  ${line}`))];
}

// pairLines writes lines of NAME=VALUE as a mapping.
function pairLines(key, text) {
  const pairs = (text ?? '').split('\n').map((line) => line.trim()).filter(Boolean).map((line) => line.split(/=(.*)/s));
  return pairs.length ? [`${key}:`, ...pairs.map(([name, value = '']) => `  ${quoteText(name)}: ${JSON.stringify(value)}`)] : [];
}
