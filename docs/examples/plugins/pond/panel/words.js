// The words of the panel.

export function line(leaps) {
  return `${leaps} leaps so far`;
}
