// slug makes the anchor of a heading as GitHub does, so that a link works there and here. The rule
// is the one of internal/anchor.
export function slug(heading) {
  return [...heading.toLowerCase()]
    .map((c) => (c === ' ' ? '-' : /[\p{L}\p{N}\p{M}_-]/u.test(c) ? c : ''))
    .join('')
}
