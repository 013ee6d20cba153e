"""Sections of the page for the Eyeriss chip (JSSC 2017), its comparison of dataflows (ISCA 2016), and TETRIS."""
