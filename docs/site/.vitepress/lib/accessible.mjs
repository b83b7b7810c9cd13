// Mends what keeps people with a keyboard or a screen reader from using the theme of VitePress. A
// version of VitePress that has other texts fails the build.
const changes = {
  // The first page has no main part.
  'VPHome.vue': [
    ['<div \n    class="VPHome"', '<main\n    class="VPHome"'],
    ['  </div>\n</template>', '  </main>\n</template>'],
  ],
  // The search is a dialog, not a button that contains buttons. Its options are the links
  // themselves, and their names what is shown. The pictures of keys have names.
  'VPLocalSearchBox.vue': [
    [
      'role="button"\n' +
        '      :aria-owns="results?.length ? \'localsearch-list\' : undefined"\n' +
        '      aria-expanded="true"\n      aria-haspopup="listbox"',
      'role="dialog" aria-modal="true"',
    ],
    [
      ':id="\'localsearch-item-\' + index"\n' +
        '            :aria-selected="selectedIndex === index ? \'true\' : \'false\'"\n' +
        '            role="option"\n          >\n            <a\n',
      'role="none"\n          >\n            <a :id="\'localsearch-item-\' + index" role="option"\n' +
        '              :aria-selected="selectedIndex === index ? \'true\' : \'false\'"\n',
    ],
    [`:aria-label="[...p.titles, p.title].join(' > ')"`, ''],
    ['<kbd :aria-label=', '<kbd role="img" :aria-label='],
  ],
  // The key is not a part of the button's name: the style sheet shows it.
  'VPNavBarSearchButton.vue': [
    ['<kbd class="DocSearch-Button-Key">K</kbd>', '<kbd class="DocSearch-Button-Key"></kbd>'],
  ],
  // A section of the sidebar is a button with a button inside. It becomes one button, and a section
  // that is a link has a button beside it.
  'VPSidebarItem.vue': [
    [
      ':role="itemRole"',
      ':role="item.items && itemRole" :aria-expanded="isLink ? undefined : !collapsed"',
    ],
    [':tabindex="item.items && 0"', ':tabindex="item.items && !isLink ? 0 : undefined"'],
    [
      'role="button"\n        aria-label="toggle section"',
      ':role="isLink ? \'button\' : undefined" :aria-label="isLink ? item.text : undefined"\n' +
        '        :aria-expanded="isLink ? !collapsed : undefined"\n' +
        '        :aria-hidden="isLink ? undefined : true"',
    ],
    [
      'tabindex="0"\n      >\n        <span',
      ':tabindex="isLink ? 0 : undefined"\n      >\n        <span',
    ],
  ],
}

export function accessible() {
  return {
    name: 'retrysafe:accessible',
    enforce: 'pre',
    transform(code, id) {
      const name = /\/vitepress\/dist\/client\/theme-default\/components\/([^/?]+)$/.exec(id)?.[1]
      if (!changes[name]) return null
      for (const [old, mended] of changes[name]) {
        if (!code.includes(old)) throw new Error(`${name} of this version has no ${old}`)
        code = code.replaceAll(old, () => mended)
      }
      return code
    },
  }
}
