// Tests of what the configuration makes of the files of the repository.
import assert from 'node:assert/strict'
import test from 'node:test'
import { introduction } from '../.vitepress/lib/home.mjs'
import { link } from '../.vitepress/lib/links.mjs'
import { address, isChinese, list, route, twin } from '../.vitepress/lib/pages.mjs'
import { menus } from '../.vitepress/lib/sidebar.mjs'
import { slug } from '../.vitepress/lib/slug.mjs'
import { tokenize, tokenizeQuery } from '../.vitepress/lib/tokenize.mjs'

test('addresses', () => {
  for (const [file, want] of Object.entries({
    'README.md': '/',
    'README.zh-CN.md': '/zh/',
    'CONTRIBUTING.zh-CN.md': '/zh/contributing',
    'docs/README.md': '/docs/',
    'docs/locks.md': '/locks',
    'docs/locks.zh-CN.md': '/zh/locks',
    'docs/problems/README.zh-CN.md': '/zh/problems/',
    'examples/callback/README.zh-CN.md': '/zh/examples/callback/',
    'docs/site/changelog.zh-CN.md': '/zh/changelog',
  })) {
    assert.equal(address(file), want, file)
  }
  const all = list().map(route)
  assert.equal(new Set(all).size, all.length, 'two pages have one address')
  assert.ok(all.length > 150, `${all.length} pages`)
})

test('the language switch finds each page in the other language', () => {
  const all = new Set(list())
  for (const file of all) {
    assert.ok(all.has(twin(file)), `${file} has no page in the other language`)
    const [english, chinese] = isChinese(file) ? [twin(file), file] : [file, twin(file)]
    assert.equal(address(chinese), '/zh' + address(english))
  }
})

test('each page is once in the sidebar of its language', () => {
  for (const language of ['en', 'zh']) {
    const { nav, sidebar } = menus(language)
    assert.equal(nav.length, 3)
    const flat = (items) => items.flatMap((i) => [i.link, ...flat(i.items ?? [])])
    const links = flat(sidebar).filter((to) => to && !to.includes('#'))
    const pages = list().filter((f) => isChinese(f) === (language === 'zh') && !/^README/.test(f))
    assert.deepEqual(links.toSorted(), pages.map(address).toSorted())
  }
})

test('links', () => {
  for (const [file, href, want] of [
    ['docs/README.md', 'locks.md', '/locks'],
    ['docs/README.md', 'check.md#the-checks', '/check#the-checks'],
    ['docs/README.zh-CN.md', 'ids.zh-CN.md', '/zh/ids'],
    ['docs/problems/in-progress.md', '../outcomes.md', '/outcomes'],
    ['README.zh-CN.md', 'CHANGELOG.md', '/zh/changelog'],
    ['README.md', 'CHANGELOG.md', '/changelog'],
    ['docs/a.md', '../examples', '/examples/'],
    ['docs/a.zh-CN.md', '../examples', '/zh/examples/'],
    ['docs/a.md', '../deploy', 'https://github.com/retrysafe/retrysafe/tree/main/deploy'],
    ['docs/a.md', '../doc.go', 'https://github.com/retrysafe/retrysafe/blob/main/doc.go'],
    ['docs/a.md', 'https://example.com/x.md', 'https://example.com/x.md'],
    ['docs/a.md', '#here', '#here'],
  ]) {
    assert.equal(link(file, href), want, `${href} in ${file}`)
  }
  assert.throws(() => link('docs/a.md', 'no-such-page.md'), /leads to no file/)
})

test('anchors are those of GitHub', () => {
  assert.equal(slug('A `b_c`, d'), 'a-b_c-d')
  assert.equal(slug('Links & more'), 'links--more')
  assert.equal(slug('用 Redis 保存'), '用-redis-保存')
})

test('words of the search', () => {
  const words = ['the', 'lease', 'time', '租约', '约', '幂等', '等键', '键', 'x']
  assert.deepEqual(tokenize('the lease_time 租约。幂等键 x'), words)
  assert.deepEqual(tokenizeQuery('幂等键 lease 锁'), ['幂等', '等键', 'lease', '锁'])
})

test('the first page says what README says', () => {
  assert.equal(introduction('README.md').does, 'makes an operation safe to repeat')
  assert.equal(introduction('README.zh-CN.md').does, '让操作可以安全地重复')
  for (const file of ['README.md', 'README.zh-CN.md']) {
    assert.doesNotMatch(introduction(file).more, /中文|English|\n|。 /)
  }
})
