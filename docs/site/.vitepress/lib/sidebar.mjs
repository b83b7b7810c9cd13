// The sidebar and the navigation: the sections of docs/README.md in their order, and after them the
// pages that it does not link to. So every page has a place without a list of pages.
import { address, isChinese, list, plain, read, title } from './pages.mjs'
import { link } from './links.mjs'
import { slug } from './slug.mjs'

// names are written as they are at the beginning of a line.
const names = new Set(['gin', 'nginx', 'advise'])

const words = {
  en: { problems: 'problems/', examples: 'Examples', project: 'Project' },
  zh: { problems: 'problems/', examples: '示例', project: '项目' },
}

// sections returns the sections of a map page: for each its heading and the links to pages in it.
// The links before the first section are in the section of the page's title.
export function sections(file) {
  const all = []
  for (const line of read(file).split('\n')) {
    const heading = /^##? +(.*)$/.exec(line)
    if (heading) all.push({ text: plain(heading[1]), items: [] })
    for (const m of line.matchAll(/\[((?:[^\]]|\](?!\())*)\]\(([^)\s]+)\)/g)) {
      if (m[1] === '中文' || m[1] === 'English') continue
      const to = link(file, m[2])
      if (to.startsWith('/')) all.at(-1).items.push({ text: label(m[1]), link: to })
    }
  }
  return all
}

function label(text) {
  const s = plain(text)
  const name = names.has(s.split(' ')[0]) || /^[^ ]*[A-Z]/.test(s)
  return escape(name ? s : s[0].toUpperCase() + s.slice(1))
}

// escape makes HTML of a text: VitePress writes the texts of the sidebar as they are.
const escape = (s) => s.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

// menus returns the navigation and the sidebar of a language, 'en' or 'zh'.
export function menus(language) {
  const map = language === 'zh' ? 'docs/README.zh-CN.md' : 'docs/README.md'
  const [start, ...rest] = sections(map)
  const seen = new Set([address(map)])
  const sidebar = [start, ...rest].map((s) => {
    const items = s.items.filter((item) => !seen.has(item.link))
    items.forEach((item) => seen.add(item.link))
    return { text: s.text, collapsed: false, items }
  })
  sidebar[0].items.unshift({ text: language === 'zh' ? '全部文档' : 'All pages', link: address(map) })
  place(sidebar, others(language, seen), words[language])
  const nav = rest.map((s) => ({ text: s.text, link: `${address(map)}#${slug(s.text)}` }))
  return { nav, sidebar }
}

// others returns the pages of a language that have no place yet, except the first page.
function others(language, seen) {
  return list()
    .filter((file) => isChinese(file) === (language === 'zh'))
    .map((file) => ({ text: escape(title(file)), link: address(file) }))
    .filter((item) => !seen.has(item.link) && !/^\/(zh\/)?$/.test(item.link))
}

// place puts pages of a directory below the page that leads to them, and the others at the end.
function place(sidebar, pages, words) {
  const take = (prefix) => {
    const at = new RegExp(`^/(zh/)?${prefix}`)
    const taken = pages.filter((item) => at.test(item.link))
    pages = pages.filter((item) => !at.test(item.link))
    return taken
  }
  for (const [to, prefix] of [[/\/problems\/$/, words.problems]]) {
    const parent = sidebar.flatMap((s) => s.items).find((item) => to.test(item.link))
    if (!parent) throw new Error(`docs/README.md has no link to ${to}, where ${prefix} belongs`)
    Object.assign(parent, { collapsed: true, items: take(prefix) })
  }
  sidebar.push({ text: words.examples, collapsed: true, items: take('examples/') })
  sidebar.push({ text: words.project, collapsed: true, items: pages })
}
