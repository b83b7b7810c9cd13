// The index of the search, one for each language. VitePress makes its own from the paths of the
// files, which have the language at their end, and so puts both languages into one.
import MiniSearch from 'minisearch'
import path from 'node:path'
import { createMarkdownRenderer } from 'vitepress'
import { address, isChinese, list, read, root } from './pages.mjs'
import { tokenize } from './tokenize.mjs'

const module = '/@localSearchIndex' // as VitePress names it
const locales = { root: (file) => !isChinese(file), zh: isChinese }

// searchIndex is a plugin of Vite that takes the place of the index of VitePress.
export function searchIndex() {
  let config
  return {
    name: 'retrysafe:search-index',
    enforce: 'pre',
    configResolved(resolved) {
      config = resolved.vitepress
    },
    async load(id) {
      if (id === module) {
        const load = (locale) => `${locale}: () => import('@localSearchIndex${locale}')`
        return `export default {${Object.keys(locales).map(load)}}`
      }
      const wanted = locales[id.slice(module.length)]
      if (!id.startsWith(module) || !wanted) return null
      const index = await build(config, list().filter(wanted))
      return `export default ${JSON.stringify(JSON.stringify(index))}`
    },
  }
}

async function build(config, files) {
  const base = config.site.base
  const md = await createMarkdownRenderer(config.srcDir, config.markdown, base, config.logger)
  const index = new MiniSearch({
    fields: ['title', 'titles', 'text'], storeFields: ['title', 'titles'], tokenize,
  })
  for (const file of files) {
    const env = { path: path.join(root, file), relativePath: file, cleanUrls: true }
    const id = base + address(file).slice(1)
    for (const { anchor, titles, text } of sections(md.render(read(file), env))) {
      const title = titles.at(-1)
      index.add({ id: `${id}#${anchor}`, title, titles: titles.slice(0, -1), text })
    }
  }
  return index
}

// sections divides a page at its headings. The titles of a section are its heading and those above.
export function sections(html) {
  const parts = html.split(/<h([1-6]) id="([^"]*)"[^>]*>([\s\S]*?)<\/h\1>/)
  const all = []
  const titles = []
  for (let i = 1; i < parts.length; i += 4) {
    titles.length = parts[i] - 1
    titles.push(words(parts[i + 2].replace(/<a class="header-anchor"[\s\S]*$/, '')))
    all.push({ anchor: parts[i + 1], titles: titles.filter(Boolean), text: words(parts[i + 3]) })
  }
  return all
}

const entities = { lt: '<', gt: '>', quot: '"', amp: '&', '#123': '{', '#8203': '' }

// words is the text of a piece of HTML. Elements that are not in a line separate words.
function words(html) {
  return html
    .replace(/<button[\s\S]*?<\/button>|<span class="lang">[^<]*<\/span>/g, '')
    .replace(/<\/(p|li|td|th|h[1-6]|pre|div|tr)>|<br>/g, ' ')
    .replace(/<[^>]*>/g, '')
    .replace(/&([a-z]+|#\d+);/g, (all, name) => entities[name] ?? all)
    .trim()
}
