// Tests of the built site in a real browser.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test, { after, before } from 'node:test'
import zlib from 'node:zlib'
import { chromium } from 'playwright-core'
import { root } from '../.vitepress/lib/pages.mjs'
import { serve } from './dist.mjs'

const axeFile = 'axe-4.14.1.min.js.gz'
const axe = zlib
  .gunzipSync(fs.readFileSync(path.join(root, 'test/browser/testdata', axeFile)))
  .toString()

const patience = 120_000 // much longer than a busy machine needs; waiting ends with the effect

let server
let browser

function program() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8' }).trim()
    } catch {} // the next one
  }
  throw new Error('there is no Chromium; install it with: sudo apt-get install chromium')
}

before(async () => {
  server = await serve()
  browser = await chromium.launch({
    executablePath: program(),
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  })
})

after(async () => {
  await browser?.close()
  await server?.close()
})

// open opens a page in a new profile. What the page complains about, and requests to elsewhere,
// are in wrong.
async function open(t, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 844 }, ...options })
  t.after(() => context.close())
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  const wrong = []
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && wrong.push(m.text()))
  page.on('response', (r) => r.status() >= 400 && wrong.push(`${r.status()} ${r.url()}`))
  page.on('pageerror', (e) => wrong.push(String(e)))
  page.on('request', (r) => {
    if (!r.url().startsWith(server.url) && !r.url().startsWith('data:')) wrong.push(r.url())
  })
  await page.goto(server.url + address)
  await hydrated(page)
  return { page, wrong }
}

// hydrated waits for the scripts of the page: then its root has the application.
const hydrated = (page) => page.waitForFunction(() => document.querySelector('#app')?.__vue_app__)

const search = async (page, what) => {
  await page.locator('.DocSearch-Button').click()
  await page.locator('.search-input').fill(what)
  await page.locator('.results .result').first().waitFor()
}

// inspect finds what is wider than the window, and what axe has against the page.
async function inspect(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok(wide <= 0, `${what}: ${wide} pixels too wide`)
  await page.evaluate(axe)
  const violations = await page.evaluate(async () => {
    const result = await globalThis.axe.run(document, { resultTypes: ['violations'] })
    const text = (v, n) => `${v.id}: ${n.html.slice(0, 200)} ${n.failureSummary}`
    return result.violations.flatMap((v) => v.nodes.map((n) => text(v, n)))
  })
  assert.deepEqual(violations, [], what)
}

const visited = [
  '/', '/docs/', '/rpc', '/architecture', '/decisions', '/cli', '/problems/', '/changelog',
]

for (const prefix of ['', '/zh']) {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [1280, 390]) {
      test(`pages: ${prefix || '/en'}, ${colorScheme}, ${width} px`, async (t) => {
        const { page, wrong } = await open(t, prefix + '/', {
          colorScheme, viewport: { width, height: 844 }, reducedMotion: 'reduce',
        })
        for (const address of visited) {
          await page.goto(server.url + prefix + address)
          await hydrated(page)
          const classes = await page.evaluate(() => document.documentElement.className)
          assert.equal(/\bdark\b/.test(classes), colorScheme === 'dark')
          await inspect(page, prefix + address)
        }
        await search(page, prefix ? '租约' : 'lease')
        await inspect(page, 'the search')
        assert.deepEqual(wrong, [])
      })
    }
  }
}

for (const [prefix, what, want] of [
  ['', 'lease', '/problems/lease-lost'],
  ['', 'fence', '/locks'],
  ['', 'payload-mismatch', '/problems/payload-mismatch'],
  ['/zh', '租约', '/zh/locks'],
  ['/zh', '幂等键', '/zh/problems/key-missing'],
  ['/zh', '锁', '/zh/locks'],
  ['/zh', 'payload-mismatch', '/zh/problems/payload-mismatch'],
]) {
  test(`search: ${what} in ${prefix || '/en'} finds ${want}`, async (t) => {
    const { page, wrong } = await open(t, prefix + '/docs/')
    await search(page, what)
    const found = await page
      .locator('.results .result')
      .evaluateAll((all) => all.map((a) => new URL(a.href).pathname))
    assert.ok(found.includes(want), found.join(' '))
    for (const address of found) assert.equal(address.startsWith('/zh/'), prefix === '/zh', address)
    await page.locator('.search-input').press('Enter')
    await page.waitForURL((url) => url.pathname === found[0])
    assert.deepEqual(wrong, [])
  })
}

test('the language switch leads to the same page', async (t) => {
  const { page, wrong } = await open(t, '/locks')
  for (const [label, address, lang] of [
    ['简体中文', '/zh/locks', 'zh-CN'], ['English', '/locks', 'en'],
  ]) {
    await page.locator('.VPNavBarTranslations button').hover()
    await page.locator('.VPNavBarTranslations').getByRole('link', { name: label }).click()
    await page.waitForURL(server.url + address)
    await page.waitForFunction((want) => document.documentElement.lang === want, lang)
  }
  await page.goto(server.url + '/changelog')
  await hydrated(page)
  await page.locator('.VPNavBarTranslations button').hover()
  await page.locator('.VPNavBarTranslations').getByRole('link', { name: '简体中文' }).click()
  await page.waitForURL(server.url + '/zh/changelog')
  await page.locator('h1', { hasText: 'Changelog' }).waitFor()
  assert.deepEqual(wrong, [])
})

test('a link to a heading shows it below the bar', async (t) => {
  const { page, wrong } = await open(t, '/zh/docs/')
  await page.locator('.vp-doc a[href^="/zh/check#"]').first().click()
  await page.waitForURL((url) => url.pathname === '/zh/check')
  await page.waitForFunction(() => {
    const top = document.getElementById('报告')?.getBoundingClientRect().top
    return top > 0 && top < innerHeight / 2
  })
  assert.deepEqual(wrong, [])
})
