// Tests of the built pages as text: every link leads somewhere, and nothing of what is meant for
// GitHub or for programs is left.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'
import { list, route } from '../.vitepress/lib/pages.mjs'
import { built, dist, find } from './dist.mjs'

const pages = new Map(built().map((file) => [file, fs.readFileSync(file, 'utf8')]))
const unescape = (s) => s.replaceAll('&amp;', '&').replaceAll('&quot;', '"')
const tags = (html, names) => html.match(new RegExp(`<(?:${names})\\b[^>]*>`, 'g')) ?? []
const attribute = (tag, name) => {
  const m = new RegExp(`\\s${name}="([^"]*)"`).exec(tag)
  return m ? unescape(m[1]) : null
}
const name = (file) => path.relative(dist, file)

// ids returns the anchors of a page.
const ids = (html) =>
  new Set((html.match(/<[a-z][^>]*\sid="[^"]*"/g) ?? []).map((tag) => attribute(tag, 'id')))

// text returns the text of a page as it is read, without code.
const text = (html) => html
  .replace(/<(pre|code|script|style)\b[\s\S]*?<\/\1>/g, '')
  .replace(/<!--[\s\S]*?-->/g, '')
  .replace(/<[^>]*>/g, '')

test('all pages are built', () => {
  const want = list().map((file) => route(file).replace(/\.md$/, '.html'))
  assert.deepEqual([...pages.keys()].map(name).toSorted(), want.toSorted())
})

test('every link and every file of a page exists, and every anchor', () => {
  const wrong = []
  let links = 0
  const anchors = new Map([...pages].map(([file, html]) => [file, ids(html)]))
  for (const [file, html] of pages) {
    const base = new URL('http://site/' + name(file).replace(/((^|\/)index)?\.html$/, '$2'))
    for (const tag of tags(html, 'a|img|script|link|source')) {
      const to = attribute(tag, 'href') ?? attribute(tag, 'src')
      if (to === null || /^(https?|data|mailto):/.test(to)) continue
      links++
      const url = new URL(to, base)
      const found = find(url.pathname)
      if (!found) wrong.push(`${name(file)}: ${to} does not exist`)
      else if (url.hash && !anchors.get(found)?.has(decodeURIComponent(url.hash.slice(1)))) {
        wrong.push(`${name(file)}: ${to} is no heading`)
      }
    }
  }
  assert.deepEqual(wrong, [])
  assert.ok(links > 10_000, `${links} links`)
})

test('no page loads anything from elsewhere', () => {
  for (const [file, html] of pages) {
    for (const tag of tags(html, 'img|script|link|source|iframe')) {
      const from = attribute(tag, 'href') ?? attribute(tag, 'src') ?? ''
      assert.doesNotMatch(from, /^(https?:)?\/\//, name(file))
    }
  }
  const assets = path.join(dist, 'assets')
  for (const f of fs.readdirSync(assets).filter((f) => f.endsWith('.css'))) {
    const style = fs.readFileSync(path.join(assets, f), 'utf8')
    assert.doesNotMatch(style, /url\(["']?(https?:)?\/\//, f)
  }
})

test('each page has its heading', () => {
  for (const [file, html] of pages) assert.equal(tags(html, 'h1').length, 1, name(file))
})

const leftOver = /.{0,40}(\*\*\p{L}|\]\(|translated from|go test -run TestPages).{0,40}/u

test('nothing is left of the marks of Markdown and the notes to programs', () => {
  for (const [file, html] of pages) {
    assert.equal(leftOver.exec(text(html))?.[0], undefined, name(file))
    const content = html.slice(html.indexOf('vp-doc'), html.indexOf('VPDocFooter') >>> 0)
    assert.doesNotMatch(content, /<a [^>]*>(中文|English)<\/a>/, name(file))
  }
})

test('braces and angle brackets are shown as written', () => {
  const page = (address) => pages.get(find(address)).replace(/<[^>]*>/g, '')
  for (const [address, want] of [
    ['/check', 'The text {{unique}} in the URL'],
    ['/browser', '{{retrysafeToken .Request}} a one-time token'],
    ['/browser', '{{retrysafeKey}} writes a hidden field'],
    ['/cli', 'and the body, {{unique}} is a'],
    ['/httpsig', '&lt;base64 of the secret&gt;'],
  ]) assert.ok(page(address).includes(want), `${address} has no ${want}`)
})
