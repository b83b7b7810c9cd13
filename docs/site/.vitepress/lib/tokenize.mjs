// How the search divides text into words. Chinese has no spaces: each two neighbouring characters
// are a word. VitePress sends the source of these functions to the browser, so each stands alone.

// tokenize is for pages. The last character of a run is a word too; the others begin one.
export function tokenize(text) {
  const words = []
  for (const part of text.split(/[\n\r\p{Z}\p{P}\p{S}]+/u)) {
    for (const run of part.match(/\p{Script=Han}+|[^\p{Script=Han}]+/gu) ?? []) {
      if (!/\p{Script=Han}/u.test(run)) {
        words.push(run)
        continue
      }
      const chars = [...run]
      chars.forEach((c, i) => words.push(c + (chars[i + 1] ?? '')))
    }
  }
  return words
}

// tokenizeQuery is for what a reader types: the last character alone would find too much.
export function tokenizeQuery(text) {
  const words = []
  for (const part of text.split(/[\n\r\p{Z}\p{P}\p{S}]+/u)) {
    for (const run of part.match(/\p{Script=Han}+|[^\p{Script=Han}]+/gu) ?? []) {
      const chars = [...run]
      if (chars.length === 1 || !/\p{Script=Han}/u.test(run)) words.push(run)
      else for (let i = 0; i + 1 < chars.length; i++) words.push(chars[i] + chars[i + 1])
    }
  }
  return words
}
