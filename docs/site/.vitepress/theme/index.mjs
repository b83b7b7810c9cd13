// The theme of VitePress without its fonts: pages use the fonts of the reader's machine.
import theme from 'vitepress/theme-without-fonts'
import Picture from './Picture.mjs'
import './style.css'

export default { extends: theme, enhanceApp: ({ app }) => app.component('Picture', Picture) }
