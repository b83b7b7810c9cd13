// The words of the site itself in both languages.
import { menus } from './sidebar.mjs'

const english = () => ({
  label: 'English',
  lang: 'en',
  description: 'A Go library, a gateway and a command line that make an operation safe to repeat',
  themeConfig: {
    ...menus('en'),
    outline: { level: [2, 3], label: 'On this page' },
    editLink: edit('Edit this page on GitHub'),
    skipToContentLabel: 'Skip to content',
  },
})

const chinese = () => ({
  label: '简体中文',
  lang: 'zh-CN',
  link: '/zh/',
  description: '让操作可以安全地重复：Go 库、网关和命令行工具',
  themeConfig: {
    ...menus('zh'),
    outline: { level: [2, 3], label: '本页目录' },
    editLink: edit('在 GitHub 上编辑此页'),
    docFooter: { prev: '上一页', next: '下一页' },
    langMenuLabel: '切换语言',
    darkModeSwitchLabel: '主题',
    darkModeSwitchTitle: '切换到深色主题',
    lightModeSwitchTitle: '切换到浅色主题',
    sidebarMenuLabel: '目录',
    returnToTopLabel: '返回顶部',
    skipToContentLabel: '跳到内容',
    notFound: {
      title: '没有这个页面',
      quote: '链接可能已过期，或者地址有误。',
      linkLabel: '前往首页',
      linkText: '首页',
    },
  },
})

const edit = (text) => ({
  text,
  pattern: 'https://github.com/retrysafe/retrysafe/edit/main/:path',
})

export const locales = () => ({ root: english(), zh: chinese() })

// search has the words of the search box in Chinese.
export const search = {
  zh: {
    translations: {
      button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
      modal: {
        displayDetails: '显示详细内容',
        resetButtonTitle: '清除',
        backButtonTitle: '关闭搜索',
        noResultsText: '没有找到结果：',
        footer: {
          selectText: '打开',
          navigateText: '选择',
          closeText: '关闭',
          selectKeyAriaLabel: '回车键',
          navigateUpKeyAriaLabel: '向上键',
          navigateDownKeyAriaLabel: '向下键',
          closeKeyAriaLabel: 'Esc 键',
        },
      },
    },
  },
}
