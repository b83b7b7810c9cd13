// Picture draws what a page says in mermaid, in the colours of the page. Without JavaScript the
// reader sees the text.
import { useData } from 'vitepress'
import { defineComponent, h, onMounted, ref, watch } from 'vue'

let last = 0

export default defineComponent({
  props: { text: { type: String, required: true } },
  setup(props) {
    const { isDark } = useData()
    const text = decodeURIComponent(props.text)
    const svg = ref('')
    const draw = async () => {
      const { default: mermaid } = await import('mermaid')
      mermaid.initialize({ startOnLoad: false, theme: isDark.value ? 'dark' : 'neutral' })
      svg.value = (await mermaid.render(`picture-${++last}`, text)).svg
    }
    onMounted(draw)
    watch(isDark, draw)
    return () =>
      svg.value ? h('div', { class: 'picture', innerHTML: svg.value }) : h('pre', text)
  },
})
