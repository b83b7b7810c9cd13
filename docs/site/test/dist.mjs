// What the tests share: the built site, its pages, and a server for it.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { root } from '../.vitepress/lib/pages.mjs'

export const dist = path.join(root, 'docs/site/.vitepress/dist')

// find returns the file of an address as servers with clean addresses find it, or null.
export function find(address) {
  const at = path.join(dist, decodeURIComponent(address))
  for (const file of [at, at + '.html', path.join(at, 'index.html')]) {
    if (file.startsWith(dist) && fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return file
  }
  return null
}

// built returns the HTML files of all pages.
export const built = () =>
  fs
    .readdirSync(dist, { recursive: true })
    .filter((f) => f.endsWith('.html') && f !== '404.html')
    .map((f) => path.join(dist, f))

const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

// serve serves the site on loopback. It returns its address and a function that ends it.
export async function serve() {
  const server = http.createServer((request, response) => {
    const file = find(new URL(request.url, 'http://site').pathname)
    response.statusCode = file ? 200 : 404
    const body = file ?? path.join(dist, '404.html')
    response.setHeader('Content-Type', types[path.extname(body)] ?? 'application/octet-stream')
    fs.createReadStream(body).pipe(response)
  })
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  const close = () => new Promise((closed) => {
    server.close(closed)
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, close }
}
