// Where a link of a Markdown file leads on the site.
import fs from 'node:fs'
import path from 'node:path'
import { address, isChinese, list, root, shared, twin } from './pages.mjs'

export const repository = 'https://github.com/retrysafe/retrysafe'

let files
const known = () => (files ??= new Set(list()))

// resolve returns the file or directory of the repository that a link of a file names, and its
// anchor, or null for a link to elsewhere.
export function resolve(file, href) {
  if (/^([a-z][a-z0-9+.-]*:|\/\/|#)/i.test(href)) return null
  const [to, hash] = href.split(/(?=#)/)
  const dir = path.posix.dirname(shared[file] ?? file)
  const target = path.posix.join(dir, decodeURI(to)).replace(/\/$/, '')
  return { target, hash: hash ?? '' }
}

// page returns the file of the page that a reader of a file gets for a target, if it is a page.
function page(file, target) {
  const all = known()
  if (!target.endsWith('.md')) {
    const readme = path.posix.join(target, isChinese(file) ? 'README.zh-CN.md' : 'README.md')
    return all.has(readme) ? readme : null
  }
  if (!all.has(target)) return null
  const chinese = twin(target)
  const one = shared[chinese] || shared[file] // else a page names the language that it means
  return isChinese(file) && !isChinese(target) && one && all.has(chinese) ? chinese : target
}

// link returns the address of a link on the site. What is no page is on GitHub. It throws if there
// is no such file, so that a dead link fails the build.
export function link(file, href) {
  const to = resolve(file, href)
  if (!to) return href
  const found = page(file, to.target)
  if (found) return address(found) + to.hash
  const stat = fs.statSync(path.join(root, to.target), { throwIfNoEntry: false })
  if (!stat) throw new Error(`${file}: the link ${href} leads to no file`)
  return `${repository}/${stat.isDirectory() ? 'tree' : 'blob'}/main/${to.target}${to.hash}`
}
