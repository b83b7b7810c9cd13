// The site of the documentation: VitePress over the Markdown files of the repository as they are.
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { accessible } from './lib/accessible.mjs'
import { frontmatter } from './lib/home.mjs'
import { repository } from './lib/links.mjs'
import { locales, search } from './lib/locales.mjs'
import { github, isHome } from './lib/markdown.mjs'
import { exclude, isChinese, root, route, title } from './lib/pages.mjs'
import { searchIndex } from './lib/search.mjs'
import { slug } from './lib/slug.mjs'
import { tokenize, tokenizeQuery } from './lib/tokenize.mjs'

const site = path.join(root, 'docs/site')

// vueForPages lets pages import Vue while they are rendered: they are outside of this directory,
// and so is where Vite looks for it. The rendering program finds it.
const vueForPages = {
  name: 'retrysafe:vue-for-pages',
  enforce: 'pre',
  resolveId: (id, _, { ssr }) =>
    ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : null,
}

// icon is the console's. A page without an icon asks for /favicon.ico.
const svg = fs.readFileSync(path.join(root, 'admin/console/icon.svg'), 'utf8')
const icon = 'data:image/svg+xml,' + encodeURIComponent(svg)

export default defineConfig({
  title: 'retrysafe',
  base: process.env.SITE_BASE ?? '/', // such as /docs/, if the site has only a part of its host
  srcDir: root,
  srcExclude: exclude,
  outDir: path.join(site, '.vitepress/dist'),
  cacheDir: path.join(site, '.vitepress/cache'),
  rewrites: route,
  cleanUrls: true,
  ignoreDeadLinks: 'localhostLinks', // where the reader runs an example
  locales: locales(),
  head: [['link', { rel: 'icon', href: icon }]],
  markdown: {
    config: github,
    // themes with enough contrast
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-default' },
    anchor: { slugify: slug },
    attrs: { disable: true }, // braces in a heading are text
  },
  vite: {
    plugins: [accessible(), searchIndex(), vueForPages],
    build: { chunkSizeWarningLimit: 2000 }, // the index of the search
  },
  transformPageData(page) {
    if (!isHome(page.filePath)) return
    const language = isChinese(page.filePath) ? 'zh' : 'en'
    return {
      title: title(page.filePath),
      titleTemplate: ':title',
      frontmatter: { ...page.frontmatter, ...frontmatter(page.filePath, language) },
    }
  },
  themeConfig: {
    socialLinks: [{ icon: 'github', link: repository, ariaLabel: 'GitHub' }],
    search: {
      provider: 'local',
      options: {
        locales: search,
        miniSearch: {
          options: { tokenize },
          searchOptions: {
            tokenize: tokenizeQuery,
            // The changelog has every word.
            boostDocument: (id) => (id.includes('changelog#') ? 0.2 : 1),
          },
        },
      },
    },
  },
})
