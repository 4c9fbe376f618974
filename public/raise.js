// What the Chainlit page lacks: help and a quick exit always in reach, names for its buttons, landmarks, and a live
// region that says each message once its text has stopped changing.
(() => {
  const names = { 'new-chat-button': 'New chat', 'upload-button': 'Attach files', 'chat-submit': 'Send message', 'stop-button': 'Stop',
    'sidebar-trigger-button': 'Toggle history', 'user-nav-button': 'Account menu', 'theme-toggle': 'Light or dark', 'readme-button': 'About' };
  const make = (tag, attributes, text) => {
    const element = document.createElement(tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text) element.textContent = text;
    return element;
  };
  const live = make('div', { class: 'raise-sr', role: 'status', 'aria-live': 'polite', 'aria-atomic': 'true' });
  const leave = () => { document.body.hidden = true; document.title = ''; location.replace('/leave'); };
  const bar = () => {
    const made = make('div', { id: 'raise-bar', role: 'region', 'aria-label': 'Help and leaving' });
    made.append(make('span', { class: 'lead' }, 'An AI, not a person'), make('a', { href: '/help' }, 'Get help now'));
    const exit = make('button', { type: 'button', id: 'raise-exit' }, 'Leave this page');
    exit.addEventListener('click', leave);
    made.append(exit);
    return made;
  };
  const said = new Set();
  let timer;
  const announce = () => {
    const all = [...document.querySelectorAll('.ai-message .message-content')];
    for (const last of all.slice(-3)) {
      const step = last.closest('[id^=step-]'), text = last.innerText.trim(), key = (step ? step.id : '') + text;
      if (text && !said.has(key)) { said.add(key); live.textContent = 'New message: ' + text; }
    }
  };
  const mend = () => {
    for (const id in names) {
      const button = document.getElementById(id);
      if (button && !button.getAttribute('aria-label')) button.setAttribute('aria-label', names[id]);
    }
    document.querySelectorAll('.ai-message .flex-wrap > button:not([id]):not([aria-label]), .ai-message button:not([aria-label])').forEach(button => {
      if (!button.innerText.trim()) button.setAttribute('aria-label', 'Copy message');
    });
    document.querySelectorAll('#root button:not([aria-label]):not([title])').forEach(button => {
      if (!button.innerText.trim()) button.setAttribute('aria-label', 'Go to the newest message');
    });
    for (const [route, scheme] of [['/call/', 'tel:'], ['/text/', 'sms:']]) {
      document.querySelectorAll(`.ai-message a[href^="${route}"], .ai-message a[href^="${location.origin}${route}"]`).forEach(link => {
        const number = link.getAttribute('href').split(route)[1];
        link.setAttribute('href', scheme + number);
        link.removeAttribute('target');
        link.setAttribute('aria-label', (scheme === 'tel:' ? 'Call ' : 'Text ') + link.textContent);
      });
    }
    const box = document.getElementById('chat-input');
    if (box && !box.getAttribute('aria-label')) box.setAttribute('aria-label', 'Your message');
    const composer = document.getElementById('message-composer');
    if (composer && !composer.getAttribute('role')) { composer.setAttribute('role', 'form'); composer.setAttribute('aria-label', 'Write a message'); }
    const header = document.getElementById('header');
    if (header && !header.getAttribute('role')) header.setAttribute('role', 'banner');
    const main = header ? header.nextElementSibling : document.querySelector('#root > div');
    if (main && !document.querySelector('main,[role=main]')) main.setAttribute('role', 'main');
    const landmark = document.querySelector('main,[role=main]');
    if (landmark && !document.querySelector('h1')) landmark.prepend(make('h1', { class: 'raise-sr' }, document.title));
    if (!document.getElementById('raise-bar') && document.body) document.body.prepend(bar());
    clearTimeout(timer);
    timer = setTimeout(announce, 700);
  };
  const go = () => {
    document.body.append(live);
    new MutationObserver(mend).observe(document.getElementById('root'), { childList: true, subtree: true, characterData: true });
    mend();
  };
  document.readyState === 'loading' ? addEventListener('DOMContentLoaded', go) : go();
})();
