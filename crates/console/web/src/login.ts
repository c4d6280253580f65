// Keeps the key of this run of the console, and leads on to the page that was asked for.

const key = document.querySelector<HTMLMetaElement>('meta[name="gregor-key"]')?.content;
if (key) localStorage.setItem('gregor-key', key);
location.replace('/');
