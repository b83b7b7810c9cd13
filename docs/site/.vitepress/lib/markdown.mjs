// Makes of a Markdown file as it is for GitHub what VitePress can show.
import path from 'node:path'
import { link, resolve } from './links.mjs'
import { isChinese, root, twin } from './pages.mjs'

// tags are the elements that pages may have. All others are shown as text.
const tags = new Set(['sub', 'sup', 'br', 'kbd', 'details', 'summary', 'div'])

const comment = /<!--[\s\S]*?-->/g
const han = /[\p{Script=Han}，。、；：！？（）“”《》]/u

export function github(md) {
  md.core.ruler.after('inline', 'github', (state) => {
    const file = source(state.env)
    state.tokens = blocks(state, file)
  })
  const code = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) =>
    tokens[i].info.trim() === 'mermaid'
      ? `<Picture text="${encodeURIComponent(tokens[i].content)}"/>`
      : code(tokens, i, ...rest)
  for (const type of ['text', 'code_inline']) {
    const rule = md.renderer.rules[type]
    md.renderer.rules[type] = (...args) =>
      // Vue would evaluate what is in double braces.
      rule.apply(md.renderer, args).replaceAll('{{', '&#123;&#123;')
  }
}

// source returns the file that is rendered, relative to the repository.
const source = (env) => path.relative(root, env.realPath ?? env.path).replaceAll('\\', '/')

function blocks(state, file) {
  const out = []
  let skip = 0
  for (const [i, token] of state.tokens.entries()) {
    if (skip-- > 0) continue
    skip = 0
    switch (token.type) {
      case 'html_block':
        out.push(...html(state, token))
        break
      case 'code_block': // as if it were fenced: highlighted, with a button that copies
        out.push(Object.assign(token, { type: 'fence', info: 'sh', markup: '```' }))
        break
      case 'inline':
        token.children = inline(token.children, file)
        if (token.children.length === 0 && state.tokens[i - 1].type === 'paragraph_open') {
          out.pop() // a paragraph that had only the link to the other language
          skip = 1
          break
        }
        out.push(token)
        break
      default:
        out.push(token)
    }
  }
  return isHome(file) ? withoutIntroduction(out) : out
}

export const isHome = (file) => file === 'README.md' || file === twin('README.md')

// withoutIntroduction leaves out the first heading and paragraph: the first page shows them above.
function withoutIntroduction(tokens) {
  return tokens.slice(tokens.findIndex((t) => t.type === 'paragraph_close') + 1)
}

function html(state, token) {
  const content = token.content.replace(comment, '')
  if (content.trim() === '') return []
  if (shown(content)) return [Object.assign(token, { content })]
  const text = new state.Token('text', '', 0)
  text.content = content.trim()
  const paragraph = new state.Token('inline', '', 0)
  Object.assign(paragraph, { content: text.content, children: [text] })
  return [
    new state.Token('paragraph_open', 'p', 1),
    paragraph,
    new state.Token('paragraph_close', 'p', -1),
  ]
}

// shown reports whether all elements in a piece of HTML are among tags.
function shown(content) {
  const found = [...content.matchAll(/<\/?([a-z][a-z0-9-]*)/gi)]
  return found.length > 0 && found.every((m) => tags.has(m[1].toLowerCase()))
}

function inline(children, file) {
  const out = []
  for (let i = 0; i < children.length; i++) {
    const token = children[i]
    if (token.type === 'link_open') {
      const href = token.attrGet('href')
      if (isLanguageLink(children, i, file, href)) {
        i += 2
        continue
      }
      token.attrSet('href', link(file, href))
    }
    if (token.type === 'html_inline') {
      if (token.content.replace(comment, '') === '') continue
      if (!shown(token.content)) token.type = 'text'
    }
    if (token.type === 'softbreak' && han.test(end(children, i, -1)) &&
      han.test(end(children, i, 1))) continue // a line of a Chinese paragraph ends without a space
    out.push(token)
  }
  return out
}

// end returns the last character of the text before a token (step -1), or the first after it.
function end(children, i, step) {
  do i += step
  while (/_(open|close)$/.test(children[i]?.type))
  return children[i]?.type === 'text' ? (children[i].content.at(step < 0 ? -1 : 0) ?? '') : ''
}

// isLanguageLink reports whether a link leads to the same page in the other language. The site has
// a switch for that.
function isLanguageLink(children, i, file, href) {
  const name = isChinese(file) ? 'English' : '中文'
  return children[i + 1]?.content === name && children[i + 2]?.type === 'link_close' &&
    resolve(file, href)?.target === twin(file)
}
