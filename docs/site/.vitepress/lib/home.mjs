// The first page: README with its introduction as the head.
import { plain, read } from './pages.mjs'

const labels = {
  en: { start: 'Tutorial', concepts: 'Concepts', pages: 'All pages', prefix: '/' },
  zh: { start: '教程', concepts: '概念', pages: '全部文档', prefix: '/zh/' },
}

// introduction returns what the first sentence of README says that retrysafe does, and the rest of
// the paragraph.
export function introduction(file) {
  const paragraph = read(file).split(/\n\n/).find((p) => /^retrysafe /m.test(p) && !/^#/m.test(p))
  const text = paragraph
    .replace(/ ?\[(中文|English)\]\([^)]*\)/, '')
    .replace(/(?<=[\p{Script=Han}，。、])\n(?=\p{Script=Han})/gu, '')
    .replaceAll('\n', ' ')
  const m = /^retrysafe (.+?)(?:\.|：)\s*(.*)$/s.exec(plain(text))
  if (!m) throw new Error(`${file}: the first paragraph does not begin with what retrysafe does`)
  return { does: m[1], more: m[2] }
}

// frontmatter returns what VitePress shows above the text of the first page.
export function frontmatter(file, language) {
  const { does, more } = introduction(file)
  const { start, concepts, pages, prefix } = labels[language]
  return {
    layout: 'home',
    hero: {
      name: 'retrysafe',
      text: does,
      tagline: more,
      actions: [
        { theme: 'brand', text: start, link: prefix + 'tutorial' },
        { theme: 'alt', text: concepts, link: prefix + 'concepts' },
        { theme: 'alt', text: pages, link: prefix + 'docs/' },
      ],
    },
  }
}
