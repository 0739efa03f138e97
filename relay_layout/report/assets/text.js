// Numbers and elements. Every text becomes a text node, so that a name from a model is never markup.

const bytesText = (bytes) => {
  const units = [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]];
  const found = units.find(([, scale]) => bytes >= scale);
  return found ? `${(bytes / found[1]).toFixed(1)} ${found[0]}` : `${bytes} B`;
};

const timeText = (us) => (us >= 1000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(us < 10 ? 2 : 1)} µs`);

/** The time of a transform and where it is from: a profile, else tuning records, else the estimate. */
const transformTime = (target, transform) => {
  const measured = transform.call === null ? null : target.calls[transform.call].measured_us;
  if (measured !== null) return [timeText(measured), 'measured'];
  return [timeText(transform.microseconds), transform.priced === 'modelled' ? 'estimated' : `${transform.priced} on record`];
};

const signed = (us) => `${us > 0 ? '+' : us < 0 ? '−' : '±'}${timeText(Math.abs(us))}`;

const counted = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

const shortOperator = (name) => name.replace(/^(relax|nn|image|vision)\./, '');

/** An element with children (texts or elements); options are properties, `class` and `on` apart. */
function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === 'class') element.className = value;
    else if (key === 'click') element.addEventListener('click', value);
    else if (key.startsWith('aria') || key === 'role') element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);
