import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import '@leasehold/react/styles.css';
import '../ui/tokens.css';
import '../ui/base.css';
import '../ui/page.css';
import '../ui/controls.css';
import '../ui/avatar.css';
import '../ui/list.css';
import '../ui/prose.css';
import { App } from './App';
import { Services } from './services';

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App services={new Services()} />
    </StrictMode>,
  );
}
