// Which Markdown files are pages, and at which address each is.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

// root is the repository. Paths of files are relative to it, with forward slashes.
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../..')

const chinese = '.zh-CN.md'

// shared are pages that have one text for both languages, in a file that includes it.
export const shared = {
  'docs/site/changelog.zh-CN.md': 'CHANGELOG.md',
}

export const isChinese = (file) => file.endsWith(chinese)

// twin returns the file of the same page in the other language.
export function twin(file) {
  if (shared[file]) return shared[file]
  if (isChinese(file)) return file.slice(0, -chinese.length) + '.md'
  const including = Object.keys(shared).find((f) => shared[f] === file)
  return including ?? file.slice(0, -'.md'.length) + chinese
}

// route returns the file that VitePress sees in place of a file: docs/locks.zh-CN.md is
// zh/locks.md, and so the page /zh/locks.
export function route(file) {
  let name = isChinese(file) ? file.slice(0, -chinese.length) + '.md' : file
  const dirs = name.split('/')
  const last = dirs.pop()
  if (last === 'README.md') {
    if (dirs[0] === 'docs' && dirs.length > 1) dirs.shift()
    name = [...dirs, 'index.md'].join('/')
  } else {
    if (dirs[0] === 'docs') dirs.shift()
    if (dirs[0] === 'site') dirs.shift()
    name = [...dirs, dirs.length ? last : last.toLowerCase()].join('/')
  }
  return isChinese(file) ? 'zh/' + name : name
}

// address returns the path of a page on the site.
export function address(file) {
  return '/' + route(file).replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')
}

// exclude are the Markdown files of the repository that are no pages, for VitePress.
export const exclude = [
  '**/testdata/**', '**/node_modules/**', '.ci/**', 'bin/**', 'build/**', 'dist/**',
]

// list returns the files of all pages of both languages, in the order of their names.
export function list() {
  const files = []
  const add = (dir, deep) => {
    for (const d of fs.readdirSync(path.join(root, dir), { withFileTypes: true })) {
      const file = path.posix.join(dir, d.name)
      if (d.isDirectory() && deep && !['testdata', 'node_modules', '.vitepress'].includes(d.name)) add(file, deep)
      if (d.isFile() && file.endsWith('.md')) files.push(file)
    }
  }
  add('', false)
  add('docs', true)
  add('examples', true)
  return files.sort()
}

export const read = (file) => fs.readFileSync(path.join(root, shared[file] ?? file), 'utf8')

// title returns the first heading of a page, without marks.
export function title(file) {
  const m = /^# +(.*)$/m.exec(read(file))
  return m ? plain(m[1]) : route(file)
}

// plain is the text of a line of Markdown without links and marks.
export const plain = (s) => s.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')
